package garbagecollector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page returns a list of collectable objects, or of objects with reference annotations if annotations are given.
func page(request *http.Request, namespace string, names ...string) *http.Response {
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for _, name := range names {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "u", ResourceVersion: "1",
			Labels:      map[string]string{"resources.gardener.cloud/garbage-collectable-reference": "true"},
			Annotations: map[string]string{"reference.resources.gardener.cloud/secret-12345678": name},
		}})
	}
	body, err := json.Marshal(list)
	if err != nil {
		return status(request, http.StatusInternalServerError, "InternalError")
	}
	return answer(request, http.StatusOK, string(body))
}

func distinct(texts []string) []string {
	var once []string
	for _, each := range texts {
		if !slices.Contains(once, each) {
			once = append(once, each)
		}
	}
	return once
}

// unreadable is a reader whose lists fail.
type unreadable struct {
	client.Reader

	failure error
}

func (u unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return u.failure
}

func TestNothingIsDeletedIfAnythingCannotBeListed(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("ConfigMap/unused", "Secret/unused")
	for _, resource := range []string{
		"configmaps", "secrets", "managedresources", "prometheuses", "deployments", "statefulsets", "daemonsets",
		"cronjobs", "jobs", "pods",
	} {
		t.Run(resource, func(t *testing.T) {
			g := NewWithT(t)
			s.line.fail(http.MethodGet, "/"+resource)
			err := s.run()
			g.Expect(err).To(MatchError(HavePrefix("list " + resource)))
			for _, each := range s.line.requests() {
				g.Expect(each).To(HavePrefix("GET "))
			}
		})
	}
	t.Run("the sets", func(t *testing.T) {
		g, sets := NewWithT(t), s.collector.Sets
		defer func() { s.collector.Sets = sets }()
		s.line.by(nil)
		s.collector.Sets = unreadable{Reader: s.Source, failure: errors.New("synthetic")}
		g.Expect(s.run()).To(MatchError("list ManagedResources of source cluster: synthetic"))
	})
	s.Expect(s.left()).To(Equal([]string{"ConfigMap/unused", "Secret/unused"}))
	s.Expect(s.metric("espalier_managedresource_garbage_collection_last_success_timestamp_seconds", "")).To(Equal(-1.0), "no success so far")
	s.line.by(nil)
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())
}

// If a later page fails, the whole list fails.
func TestNothingIsDeletedIfALaterPageFails(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/unused")
	s.line.by(func(request *http.Request) (*http.Response, error) {
		switch query := request.URL.Query(); {
		case !strings.HasSuffix(request.URL.Path, "/pods"):
			return nil, nil
		case query.Get("continue") == "":
			return answer(request, http.StatusOK,
				`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"continue":"more"},"items":[]}`), nil
		}
		return status(request, http.StatusGone, "Expired"), nil
	})
	s.Expect(s.run()).To(MatchError("list pods: synthetic"))
	s.Expect(s.left()).To(Equal([]string{"Secret/unused"}))
}

func TestAllPagesCount(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/a", "Secret/b", "Secret/c", "Secret/unused-1", "Secret/unused-2")
	for _, each := range []string{"a", "b", "c"} {
		s.Create(referrerManifests()["Deployment"] + s.referring(each, "secret-12345678: "+each))
	}
	var limits []string
	s.line.by(func(request *http.Request) (*http.Response, error) {
		if query := request.URL.Query(); query.Has("limit") {
			limits = append(limits, query.Get("limit"))
			query.Set("limit", "1")
			request.URL.RawQuery = query.Encode()
		}
		return nil, nil
	})
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"Secret/a", "Secret/b", "Secret/c"}))
	s.Expect(distinct(limits)).To(Equal([]string{"500"}))
	deployments := "GET /apis/apps/v1/namespaces/" + s.Namespace + "/deployments"
	seen := slices.DeleteFunc(s.line.requests(), func(each string) bool { return each != deployments })
	s.Expect(seen).To(HaveLen(6), "three pages, looked at twice")
}

// mapper reports the given kinds as not served.
type mapper struct {
	unserved  []schema.GroupKind
	failure   error
	refreshes int
}

func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.failure != nil {
		return nil, m.failure
	}
	if slices.Contains(m.unserved, kind) {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{}, nil
}

func (m *mapper) Refresh() error {
	m.refreshes++
	return nil
}

// A 404 may have many reasons; only a kind that is not served has no objects.
func TestKindsThatAreNotServed(t *testing.T) {
	prometheus := schema.GroupKind{Group: "monitoring.coreos.com", Kind: "Prometheus"}
	for name, tc := range map[string]struct {
		mapper *mapper
		want   string
		left   []string
	}{
		"the API server does not know it": {mapper: &mapper{unserved: []schema.GroupKind{prometheus}}, left: []string{}},
		"the API server says that it knows it": {
			mapper: &mapper{}, left: []string{"Secret/unused"},
			want: "list prometheuses.monitoring.coreos.com: synthetic, and it is not certain that the kind is not served: the API server says " +
				"that it serves Prometheus.monitoring.coreos.com",
		},
		"the API server of the group is out of order": {
			mapper: &mapper{failure: errors.New("boom")}, left: []string{"Secret/unused"},
			want: "list prometheuses.monitoring.coreos.com: synthetic, and it is not certain that the kind is not served: discover " +
				"Prometheus.monitoring.coreos.com: boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, options{})
			s.collectable("Secret/unused")
			s.collector.Mapper = tc.mapper
			s.line.by(func(request *http.Request) (*http.Response, error) {
				if strings.HasSuffix(request.URL.Path, "/prometheuses") {
					return status(request, http.StatusNotFound, "NotFound"), nil
				}
				return nil, nil
			})
			if err := s.run(); tc.want == "" {
				s.Expect(err).NotTo(HaveOccurred())
			} else {
				s.Expect(err).To(MatchError(tc.want))
			}
			s.Expect(s.left()).To(Equal(tc.left))
			s.Expect(tc.mapper.refreshes).To(BeNumerically(">", 0), "an old answer does not count")
		})
	}
}

// A target that may be the source, and does not serve ManagedResources, has no sets.
func TestATargetWithoutTheKindManagedResourceHasNoSets(t *testing.T) {
	sets := schema.GroupKind{Group: "resources.gardener.cloud", Kind: "ManagedResource"}
	none := []schema.GroupKind{sets, {Group: "monitoring.coreos.com", Kind: "Prometheus"}}
	notFound := apierrors.NewNotFound(schema.GroupResource{Group: sets.Group, Resource: "managedresources"}, "")
	for name, tc := range map[string]struct {
		answer error
		mapper *mapper
		want   string
		left   []string
	}{
		"the client knows no such kind": {
			answer: &meta.NoKindMatchError{GroupKind: sets}, mapper: &mapper{unserved: none}, left: []string{},
		},
		"the path does not exist": {answer: notFound, mapper: &mapper{unserved: none}, left: []string{}},
		"the API server says that it serves it": {
			answer: notFound, mapper: &mapper{}, left: []string{"Secret/unused"},
			want: "and it is not certain that the kind is not served: the API server says that it serves ManagedResource.resources.gardener.cloud",
		},
		"discovery fails": {
			answer: notFound, mapper: &mapper{failure: errors.New("boom")}, left: []string{"Secret/unused"},
			want: "and it is not certain that the kind is not served: discover ManagedResource.resources.gardener.cloud: boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, options{})
			s.collectable("Secret/unused")
			s.collector.SetsBeyond, s.collector.Mapper = unreadable{Reader: s.Source, failure: tc.answer}, tc.mapper
			if err := s.run(); tc.want == "" {
				s.Expect(err).NotTo(HaveOccurred())
			} else {
				s.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			}
			s.Expect(s.left()).To(Equal(tc.left))
		})
	}
}

// Kubernetes before 1.21 serves CronJobs as batch/v1beta1 only.
func TestOldVersionsOfCronJobsCount(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/used", "Secret/unused")
	s.collector.Mapper = &mapper{unserved: []schema.GroupKind{
		{Group: "batch", Kind: "CronJob"},
		{Group: "monitoring.coreos.com", Kind: "Prometheus"},
	}}
	s.line.by(func(request *http.Request) (*http.Response, error) {
		switch path := request.URL.Path; {
		case strings.HasPrefix(path, "/apis/batch/v1/") && strings.HasSuffix(path, "/cronjobs"):
			return status(request, http.StatusNotFound, "NotFound"), nil
		case strings.HasPrefix(path, "/apis/batch/v1beta1/") && strings.HasSuffix(path, "/cronjobs"):
			return page(request, s.Namespace, "used"), nil
		}
		return nil, nil
	})
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"Secret/used"}))
}

func TestObjectsThatChangeMeanwhileAreSpared(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/changed", "Secret/replaced", "Secret/gone", "Secret/unused")
	s.line.by(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodDelete {
			return nil, nil
		}
		switch request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:] {
		case "changed":
			s.Patch("v1/Secret", "changed", `{"metadata":{"labels":{"taken":"up"}}}`)
		case "replaced":
			s.Remove("v1/Secret", "replaced")
			s.collectable("Secret/replaced")
		case "gone":
			s.Remove("v1/Secret", "gone")
		}
		return nil, nil
	})
	s.Expect(s.runUntil(time.Second)).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"Secret/changed", "Secret/replaced"}))
	s.Expect(s.metric("espalier_managedresource_garbage_collected_total", "Secret")).To(Equal(1.0))
	s.Expect(s.metric("espalier_managedresource_garbage_found", "Secret")).To(Equal(4.0))
}

// A changed object is checked again soon, after pauses that grow, because each run lists whole kinds.
func TestObjectsThatHaveChangedAreCheckedAgainSoon(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/unused")
	conflict := func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodDelete {
			return status(request, http.StatusConflict, "Conflict"), nil
		}
		return nil, nil
	}
	s.line.by(conflict)
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		s.Expect(s.runUntil(time.Duration(seconds) * time.Second)).To(Succeed())
	}
	s.Expect(s.left()).To(Equal([]string{"Secret/unused"}))
	s.line.by(nil)
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())

	s.collectable("Secret/unused")
	s.line.by(conflict)
	s.Expect(s.runUntil(time.Second)).To(Succeed(), "the pauses begin with the shortest again")
}

// A reference that appears on an object of a kind which was already listed is found by the second pass.
func TestReferencesThatMoveDuringALookAreSeen(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/used", "Secret/unused")
	s.Create(referrerManifests()["Pod"] + s.referring("user", "secret-12345678: used"))
	var moved atomic.Bool
	s.line.by(func(request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/pods") && moved.CompareAndSwap(false, true) {
			s.Create(referrerManifests()["Deployment"] + s.referring("user", "secret-12345678: used"))
			s.Expect(s.Target.Delete(s.Ctx, s.Live("v1/Pod", "user"), client.GracePeriodSeconds(0))).To(Succeed())
		}
		return nil, nil
	})
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(Equal([]string{"Secret/used"}))
}

func TestOneFailureHoldsUpNoOtherDeletion(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("ConfigMap/a", "Secret/a", "Secret/b", "Secret/stuck")
	s.line.fail(http.MethodDelete, "/stuck")
	s.Expect(s.run()).To(MatchError(fmt.Sprintf("Could not delete all unused resources: 1 error occurred: delete Secret %s/stuck: synthetic",
		s.Namespace)))
	s.Expect(s.left()).To(Equal([]string{"Secret/stuck"}))
	s.Expect(s.metric("espalier_managedresource_garbage_collected_total", "Secret")).To(Equal(2.0))
	s.Expect(s.metric("espalier_managedresource_garbage_collection_last_success_timestamp_seconds", "")).To(Equal(-1.0))
	s.line.by(nil)
	s.Expect(s.run()).To(Succeed())
	s.Expect(s.left()).To(BeEmpty())
}

func TestMissingRightsAreReportedWithTheirRemedy(t *testing.T) {
	s := newScene(t, options{noRights: true})
	s.collectable("Secret/unused")
	err := s.run()
	s.Expect(err).To(MatchError(And(
		HavePrefix("list configmaps: configmaps is forbidden: User "),
		HaveSuffix("; ClusterRole espalier-managedresource-controller-target-garbagecollector has the rights that garbage collection needs in "+
			"the target cluster: bind it"),
		Not(ContainSubstring("\n")),
	)))
	s.Expect(s.left()).To(Equal([]string{"Secret/unused"}))
}

func TestARunIsBoundedByItsPeriod(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/unused")
	s.collector.Config.SyncPeriod = &metav1.Duration{Duration: 100 * time.Millisecond}
	s.line.by(func(request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/pods") {
			<-request.Context().Done()
			return nil, request.Context().Err()
		}
		return nil, nil
	})
	s.Expect(s.run()).To(MatchError(HavePrefix("the time for one garbage collection is over: ")))
	s.Expect(s.left()).To(Equal([]string{"Secret/unused"}))
}

// The shutdown of the process is not a failure of the run.
func TestTheEndOfTheProcessIsNoFailure(t *testing.T) {
	s := newScene(t, options{})
	s.collectable("Secret/unused")
	ctx, cancel := context.WithCancel(s.Ctx)
	cancel()
	s.Expect(s.collector.Reconcile(ctx, ctrl.Request{})).To(Equal(ctrl.Result{}))
	s.Expect(s.left()).To(Equal([]string{"Secret/unused"}))
	s.Expect(s.metric("espalier_managedresource_garbage_collection_last_success_timestamp_seconds", "")).To(Equal(-1.0))
}
