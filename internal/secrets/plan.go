package secrets

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// Step is the next write of a request. Exactly one of these is true: Observed is nil and Desired must be created; Observed and
// Desired are equal and nothing is to be written; Observed must be patched to become Desired, which changes labels and immutability
// but never data.
type Step struct{ Observed, Desired *corev1.Secret }

// Creates reports whether Desired must be created.
func (s Step) Creates() bool { return s.Observed == nil }

// Patches reports whether Observed must be patched.
func (s Step) Patches() bool {
	return s.Observed != nil && !equality.Semantic.DeepEqual(s.Observed, s.Desired)
}

// Plan decides the next step of a request. A Secret that does not exist is generated completely, labels included, so that one
// request creates it. The caller carries out the step and hands the result to Record.
func (i *Inventory) Plan(request Request, source config.Source) (Step, error) {
	name := request.Config.LogicalName()
	request, labels, err := i.resolve(request, source.Now)
	if err != nil {
		return Step{}, fmt.Errorf("failed applying generate options for config %s: %w", name, err)
	}
	unique := uniqueName(name, request.Config.Hash(), labels[LabelSigningCAChecksum], labels[LabelLastRotation])

	step := Step{}
	for _, secret := range i.observed {
		if secret.Name == unique {
			step = Step{Observed: secret.DeepCopy(), Desired: secret.DeepCopy()}
		}
	}
	if step.Creates() {
		if i.options.ClockProblem != "" {
			return Step{}, fmt.Errorf("secret %q is not issued while clocks differ: %s", unique, i.options.ClockProblem)
		}
		if step.Desired, err = i.create(request, unique, source); err != nil {
			return Step{}, fmt.Errorf("generate secret %q: %w", unique, err)
		}
	}
	life, err := lifetimeOf(request, step.Desired, source.Now)
	if err != nil {
		return Step{}, err
	}
	labels[LabelIssuedAt] = labelOfTime(life.issuedAt)
	if !life.validUntil.IsZero() {
		labels[LabelValidUntil] = labelOfTime(life.validUntil)
	}
	step.Desired.Labels, step.Desired.Immutable = labels, ptr.To(true)
	return step, nil
}

// Missing returns the name of the Secret that Plan would generate with new content for a request. It returns "" if the Secret was
// observed, if the Secret would get the data from before an aborted rotation, or if the Secret would get the data of a donor.
func (i *Inventory) Missing(request Request, now time.Time) (string, error) {
	name, observed, err := i.find(request, now)
	if observed || err != nil {
		return "", err
	}
	former, err := i.leadsBackTo(request.Config.LogicalName())
	if former != nil || err != nil {
		return "", err
	}
	data, err := i.dataOfDonor(request.Config.LogicalName())
	if data != nil || err != nil {
		return "", err
	}
	return name, nil
}

// Present returns the name of the Secret of a request if the Secret was observed. It also returns the name if the Secret was not observed,
// but would get the data from before an aborted rotation. Otherwise it returns "". If the Secret was observed, but a user has marked a
// donor for its logical name, Present also returns "": then the user has decided which key is used.
func (i *Inventory) Present(request Request, now time.Time) (string, error) {
	name, observed, err := i.find(request, now)
	if err != nil {
		return "", err
	}
	logicalName := request.Config.LogicalName()
	former, err := i.leadsBackTo(logicalName)
	if err != nil {
		return "", err
	}
	if former != nil && !observed {
		return name, nil
	}
	hasDonor := slices.ContainsFunc(i.donors, func(donor *corev1.Secret) bool { return donor.Labels[LabelUseDataFor] == logicalName })
	if !observed || hasDonor {
		return "", nil
	}
	return name, nil
}

// find returns the name of the Secret of a request, and whether the Secret was observed.
func (i *Inventory) find(request Request, now time.Time) (name string, observed bool, err error) {
	request, labels, err := i.resolve(request, now)
	if err != nil {
		return "", false, err
	}
	name = uniqueName(request.Config.LogicalName(), request.Config.Hash(), labels[LabelSigningCAChecksum], labels[LabelLastRotation])
	return name, slices.ContainsFunc(i.observed, func(secret *corev1.Secret) bool { return secret.Name == name }), nil
}

// resolve returns the request with its signing CA, and all labels but the labels of the lifetime.
func (i *Inventory) resolve(request Request, now time.Time) (Request, map[string]string, error) {
	labels := map[string]string{}
	maps.Copy(labels, request.Labels)
	if request.SignedBy != "" {
		certificate, err := certificateOf(request.Config)
		if err != nil {
			return Request{}, nil, err
		}
		ca, checksum, err := i.authority(request.SignedBy, request.Signer, certificate.Type, now)
		if err != nil {
			return Request{}, nil, err
		}
		certificate.SigningCA = ca
		request.Config = withCertificate(request.Config, certificate)
		labels[LabelSigningCAChecksum] = checksum
	}
	name := request.Config.LogicalName()
	labels[LabelName] = name
	labels[LabelManagedBy] = ManagedBy
	labels[LabelManagerIdentity] = i.options.Identity
	labels[LabelConfigChecksum] = strconv.FormatUint(request.Config.Hash(), 10)
	labels[LabelLastRotation] = i.rotation[name]
	if request.Persist {
		labels[LabelPersist] = "true"
	}
	if request.bundleFor != "" {
		labels[LabelBundleFor] = request.bundleFor
	}
	return request, labels, nil
}

func (i *Inventory) create(request Request, name string, source config.Source) (*corev1.Secret, error) {
	former, err := i.leadsBackTo(request.Config.LogicalName())
	if err != nil {
		return nil, err
	}
	if former != nil {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: i.options.Namespace, Name: name, Labels: map[string]string{LabelIssuedAt: former.Labels[LabelIssuedAt]},
			},
			Type: former.Type, Data: maps.Clone(former.Data),
		}, nil
	}
	data, err := i.dataOfDonor(request.Config.LogicalName())
	if err != nil {
		return nil, err
	}
	if data == nil {
		if data, err = withCommonName(request.Config, name).Generate(source); err != nil {
			return nil, err
		}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.options.Namespace, Name: name},
		Type:       typeOf(data),
		Data:       data,
	}, nil
}

// withCommonName returns the config; the common name of a certificate authority in it is the name of the Secret. So no two authorities
// have the same subject.
func withCommonName(c config.Config, name string) config.Config {
	if certificate, ok := c.(config.Certificate); ok && certificate.Type == config.CA {
		certificate.CommonName = name
		return certificate
	}
	return c
}

// dataOfDonor returns the data of the Secret that a user has labelled as donor for a logical name, nil if there is no donor. It fails if
// there are two donors. It also fails if a managed Secret already has the data: a rotation or renewal would keep the credential that it
// must replace.
func (i *Inventory) dataOfDonor(name string) (map[string][]byte, error) {
	var data map[string][]byte
	for _, donor := range i.donors {
		if donor.Labels[LabelUseDataFor] != name {
			continue
		}
		if data != nil {
			return nil, fmt.Errorf("found more than one existing secret with %q label for config %q", LabelUseDataFor, name)
		}
		if copied := i.copyOf(donor); copied != nil {
			return nil, fmt.Errorf("secret %q still has the label %q for config %q, and secret %q already has the same data, so that a new "+
				"secret would replace nothing; remove the label from secret %q", donor.Name, LabelUseDataFor, name, copied.Name, donor.Name)
		}
		data = maps.Clone(donor.Data)
		if data == nil {
			data = map[string][]byte{}
		}
	}
	return data, nil
}

// copyOf returns the managed Secret of the logical name that a donor is for and that has the data of the donor, or nil.
func (i *Inventory) copyOf(donor *corev1.Secret) *corev1.Secret {
	copied, _ := i.newest(donor.Labels[LabelUseDataFor], donor.Name, func(secret *corev1.Secret) (bool, error) { // it never fails
		return maps.EqualFunc(secret.Data, donor.Data, bytes.Equal), nil
	})
	return copied
}
