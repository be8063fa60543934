package secrets

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// Step is what a request needs next. Exactly one of these holds: Observed is nil and Desired must be created; Observed and Desired are
// equal and nothing is to be written; Observed must be patched to become Desired, which changes labels and immutability but never data.
type Step struct{ Observed, Desired *corev1.Secret }

// Creates reports whether Desired must be created.
func (s Step) Creates() bool { return s.Observed == nil }

// Patches reports whether Observed must be patched.
func (s Step) Patches() bool {
	return s.Observed != nil && !equality.Semantic.DeepEqual(s.Observed, s.Desired)
}

// Plan decides what a request needs. A Secret that does not exist is generated completely, labels included, so that one request creates it.
// The caller carries out the step and hands the result to Record.
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
		if step.Desired, err = i.create(request, unique, labels[LabelLastRotation], source); err != nil {
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

// resolve returns the request with its signing CA, and all labels but those of the lifetime.
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

func (i *Inventory) create(request Request, name, rotation string, source config.Source) (*corev1.Secret, error) {
	if err := i.refuseUnexplainedKey(request.Config, name, rotation); err != nil {
		return nil, err
	}
	data, err := i.donated(request.Config.LogicalName())
	if err != nil {
		return nil, err
	}
	if data == nil {
		if data, err = named(request.Config, name).Generate(source); err != nil {
			return nil, err
		}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.options.Namespace, Name: name},
		Type:       typeOf(data),
		Data:       data,
	}, nil
}

// named returns the config with the name of the Secret as common name of a certificate authority, so that no two have the same subject.
func named(c config.Config, name string) config.Config {
	if certificate, ok := c.(config.Certificate); ok && certificate.Type == config.CA {
		certificate.CommonName = name
		return certificate
	}
	return c
}

// donated returns the data of the Secret that a user has marked for a logical name, or nil.
func (i *Inventory) donated(name string) (map[string][]byte, error) {
	var data map[string][]byte
	for _, donor := range i.donors {
		if donor.Labels[LabelUseDataFor] != name {
			continue
		}
		if data != nil {
			return nil, fmt.Errorf("found more than one existing secret with %q label for config %q", LabelUseDataFor, name)
		}
		data = maps.Clone(donor.Data)
		if data == nil {
			data = map[string][]byte{}
		}
	}
	return data, nil
}

// refuseUnexplainedKey protects the data that an API server has encrypted: a new encryption key is only created for the first time, for a
// rotation, or for a change of the provider. Otherwise the computed name is wrong, and a new key would make the data unreadable.
func (i *Inventory) refuseUnexplainedKey(c config.Config, name, rotation string) error {
	key, ok := c.(config.EncryptionKey)
	if !ok {
		return nil
	}
	existing := i.Newest(key.Name, name)
	if existing == nil || existing.Labels[LabelLastRotation] != rotation {
		return nil
	}
	used := config.EncryptionProvider(existing.Data[config.DataKeyEncryptionProvider])
	if cmp.Or(used, config.AESCBC) != cmp.Or(key.Provider, config.AESCBC) {
		return nil
	}
	return fmt.Errorf(
		"encryption key is missing, but secret %q exists, and neither a rotation nor a change of the provider explains a new key", existing.Name)
}
