package documented_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/config"
	. "github.com/espalier-dev/espalier/internal/managedresource/managedresourcetest"
)

const (
	applied     = "True/ApplySucceeded"
	applyFailed = "False/ApplyFailed"
	undecodable = "False/DecodingFailed"
	pending     = "Progressing/DeletionPending"

	configMap   = "v1/ConfigMap"
	deployment  = "apps/v1/Deployment"
	statefulSet = "apps/v1/StatefulSet"
)

// example says where to run an example of the page, and checks each sentence below it. The sentences are checked in the order of the page,
// and each check starts in the state that the previous one has left.
type example struct {
	// oneCluster makes source and target one cluster, in which the controllers of Kubernetes run. Otherwise there are two clusters, and
	// only the test and the controller write to the target.
	oneCluster bool
	// configure changes the configuration.
	configure func(*config.ResourceManagerConfiguration)
	// before prepares the target before the controller starts.
	before func(s *scene)
	// claims are checks by the sentence of the page, without code marks. Each changes something and checks the result.
	claims map[string]func(s *scene)
}

// scene is a separate namespace with a running controller, in which an example is run.
type scene struct {
	*Env
	page *page
	// yaml is the example as on the page, set is the name of its ManagedResource.
	yaml, set string
	// annotations are the annotations that were last written to ManagedResources.
	annotations map[string]string
}

func newScene(t *testing.T, p *page, shown pageExample, e example) *scene {
	t.Helper()
	s := &scene{page: p, yaml: shown.yaml, annotations: map[string]string{}}
	s.Env = New(t, Options{Stopped: true, TwoClusters: !e.oneCluster, Configure: func(cfg *config.ResourceManagerConfiguration) {
		cfg.Controllers.ManagedResource.SyncPeriod = &metav1.Duration{Duration: time.Minute} // a faster reaction is caused by an event
		if e.configure != nil {
			e.configure(cfg)
		}
	}})
	for _, each := range s.objects() {
		if each.GetKind() == "ManagedResource" {
			s.set = each.GetName()
		}
	}
	if e.before != nil {
		e.before(s)
	}
	s.Start()
	return s
}

// objects returns the objects of the example in the scene's namespace, after edits: pairs of a text of the page and its replacement.
func (s *scene) objects(edits ...string) []*unstructured.Unstructured {
	s.T.Helper()
	text := s.yaml
	for i := 0; i < len(edits); i += 2 {
		s.Expect(text).To(ContainSubstring(edits[i]))
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	var found []*unstructured.Unstructured
	for document := range strings.SplitSeq(s.here(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		s.Expect(yaml.UnmarshalStrict([]byte(document), &object.Object)).To(Succeed())
		found = append(found, object)
	}
	return found
}

var compressed = regexp.MustCompile(`(\.br: )(\S+)`)

// here replaces the namespace "shop" in a text of the page by the namespace of the scene, within compressed values too.
func (s *scene) here(text string) string {
	move := strings.NewReplacer("namespace: shop", "namespace: "+s.Namespace, `"namespace": "shop"`, `"namespace": "`+s.Namespace+`"`).Replace
	return compressed.ReplaceAllStringFunc(move(text), func(found string) string {
		parts := compressed.FindStringSubmatch(found)
		content, err := unpack(parts[2])
		if err != nil {
			return found // values that cannot be decompressed: a sentence covers them
		}
		return parts[1] + pack(s.WithT, move(content))
	})
}

func unpack(value string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(brotli.NewReader(bytes.NewReader(raw)))
	return string(content), err
}

func pack(g *WithT, content string) string {
	var out bytes.Buffer
	writer := brotli.NewWriter(&out)
	_, err := writer.Write([]byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writer.Close()).To(Succeed())
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// apply writes the example to the source, as kubectl apply would. For edits, see objects.
func (s *scene) apply(edits ...string) {
	s.T.Helper()
	for _, each := range s.objects(edits...) {
		content, err := yaml.Marshal(each.Object)
		s.Expect(err).NotTo(HaveOccurred())
		if each.GetKind() == "Secret" {
			secret := &corev1.Secret{}
			s.Expect(yaml.UnmarshalStrict(content, secret)).To(Succeed())
			s.writeSecret(secret)
			continue
		}
		mr := &resourcesv1alpha1.ManagedResource{}
		s.Expect(yaml.UnmarshalStrict(content, mr)).To(Succeed())
		s.writeSet(mr)
	}
}

func (s *scene) writeSecret(secret *corev1.Secret) {
	s.T.Helper()
	err := s.Source.Create(s.Ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.Source.Update(s.Ctx, secret)
	}
	s.Expect(err).NotTo(HaveOccurred())
}

func (s *scene) writeSet(want *resourcesv1alpha1.ManagedResource) {
	s.T.Helper()
	s.Eventually(func() error {
		mr := &resourcesv1alpha1.ManagedResource{}
		err := s.Source.Get(s.Ctx, client.ObjectKeyFromObject(want), mr)
		if apierrors.IsNotFound(err) {
			return s.Source.Create(s.Ctx, want.DeepCopy())
		}
		if err != nil {
			return err
		}
		mr.Spec = want.Spec
		maps.DeleteFunc(mr.Annotations, func(key, _ string) bool { return s.annotations[key] != "" })
		if mr.Annotations == nil {
			mr.Annotations = map[string]string{}
		}
		maps.Copy(mr.Annotations, want.Annotations)
		return s.Source.Update(s.Ctx, mr)
	}).WithTimeout(Patience).Should(Succeed())
	maps.Copy(s.annotations, want.Annotations)
}

// change applies edits of manifests and waits until they are written.
func (s *scene) change(edits ...string) {
	s.T.Helper()
	before := s.Get(s.set)
	s.apply(edits...)
	s.AwaitChange(before)
}

// awaitApplied waits until ResourcesApplied of the set has this value.
func (s *scene) awaitApplied(want string) *resourcesv1alpha1.ManagedResource {
	s.T.Helper()
	return s.AwaitApplied(s.set, want)
}

// message returns the message of ResourcesApplied.
func (s *scene) message() string {
	s.T.Helper()
	return Message(s.Get(s.set), "ResourcesApplied")
}

// remove deletes the set and waits until it is gone.
func (s *scene) remove() {
	s.T.Helper()
	s.Delete(s.set)
	s.AwaitGone(s.set)
}

// managed lists the objects in the status of the set as "Kind/name".
func (s *scene) managed() []string {
	s.T.Helper()
	found := []string{}
	for _, each := range s.Get(s.set).Status.Resources {
		found = append(found, each.Kind+"/"+each.Name)
	}
	return found
}

// awaitValue waits until a ConfigMap of the target has a value.
func (s *scene) awaitValue(name, key, value string) {
	s.T.Helper()
	s.Await(configMap, name, func(g Gomega, live *unstructured.Unstructured) { g.Expect(Field(live, "data", key)).To(Equal(value)) })
}

// uid returns the UID of an existing object of the target.
func (s *scene) uid(kind, name string) string {
	s.T.Helper()
	live := s.Live(kind, name)
	s.Expect(live).NotTo(BeNil(), "%s %s does not exist", kind, name)
	return string(live.GetUID())
}

// awaitAnother waits until an object of the target was replaced by one with another UID.
func (s *scene) awaitAnother(kind, name, uid string) {
	s.T.Helper()
	s.Await(kind, name, func(g Gomega, live *unstructured.Unstructured) { g.Expect(string(live.GetUID())).NotTo(Equal(uid)) })
}

// annotate sets annotations of the ManagedResource by a merge patch, like kubectl annotate.
func (s *scene) annotate(patch string) {
	s.T.Helper()
	s.Expect(s.Source.Patch(s.Ctx, s.ManagedResource(s.set), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":`+patch+`}}`)))).To(Succeed())
}

// soon waits until a condition is true.
func (s *scene) soon(actual any) AsyncAssertion {
	s.T.Helper()
	return s.Eventually(actual).WithTimeout(Patience)
}
