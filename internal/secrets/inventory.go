package secrets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// Options are the same for all requests of one reconciliation.
type Options struct {
	Namespace string
	// Identity is the value of LabelManagerIdentity.
	Identity string
	// RotationTimes are the times of the last rotation by logical name. They win over the labels of the observed Secrets and over renewal.
	RotationTimes map[string]time.Time
	// RenewedAuthorities are the logical names of the certificate authorities that are renewed before they expire. Other authorities are
	// only rotated. Content that is no certificate authority is always renewed.
	RenewedAuthorities []string
}

// Inventory knows the Secrets that were observed at the start of a reconciliation and those that were requested since then. It decides
// about them and does no I/O. It is not safe for concurrent use. A new reconciliation needs a new Inventory.
type Inventory struct {
	options  Options
	observed []*corev1.Secret
	donors   []*corev1.Secret
	rotation map[string]string
	expiring []string
	entries  map[string]entry
}

// entry is what was recorded for a logical name. Nil Secrets do not exist.
type entry struct{ current, old, bundle *corev1.Secret }

// Class is one of the Secrets of a logical name.
type Class int

const (
	// BundleOrCurrent is the bundle, or the current Secret if there is no bundle.
	BundleOrCurrent Class = iota
	// Current is the Secret of the requested config and the last rotation.
	Current
	// Old is the predecessor of the current Secret.
	Old
	// Bundle contains the public part of current and old authorities, or the private keys of current and old RSA keys.
	Bundle
)

// NewInventory decides which content is renewed. Observed are the Secrets with LabelManagedBy and LabelManagerIdentity in the order of the
// list; others among them are ignored. Donors are the Secrets with LabelUseDataFor. It fails if a lifetime label cannot be parsed.
func NewInventory(options Options, observed, donors []corev1.Secret, now time.Time) (*Inventory, error) {
	inventory := &Inventory{options: options, rotation: map[string]string{}, entries: map[string]entry{}}
	for i := range observed {
		inventory.observed = append(inventory.observed, observed[i].DeepCopy())
	}
	for i := range donors {
		inventory.donors = append(inventory.donors, donors[i].DeepCopy())
	}
	for _, secret := range inventory.observed {
		name := secret.Labels[LabelName]
		if _, known := inventory.rotation[name]; known || !inventory.manages(secret) {
			continue
		}
		newest := inventory.Newest(name, "")
		inventory.rotation[name] = newest.Labels[LabelLastRotation]
		if err := inventory.renew(name, newest, now); err != nil {
			return nil, err
		}
	}
	for name, last := range options.RotationTimes {
		inventory.rotation[name] = labelOfTime(last)
	}
	slices.Sort(inventory.expiring)
	return inventory, nil
}

func (i *Inventory) renew(name string, newest *corev1.Secret, now time.Time) error {
	life, expires, err := lifetimeOfLabels(newest)
	if err != nil || !expires || !life.needsRenewal(now) {
		return err
	}
	if isAuthority(newest) && !slices.Contains(i.options.RenewedAuthorities, name) {
		i.expiring = append(i.expiring, name)
		return nil
	}
	i.rotation[name] = labelOfTime(now)
	return nil
}

func isAuthority(secret *corev1.Secret) bool {
	_, certificate := secret.Data[config.DataKeyCACertificate]
	_, key := secret.Data[config.DataKeyCAPrivateKey]
	return certificate && key
}

// ExpiringAuthorities returns the sorted logical names of certificate authorities that expire soon and that only a rotation replaces.
func (i *Inventory) ExpiringAuthorities() []string { return slices.Clone(i.expiring) }

// Get returns a Secret of a logical name that was recorded before. The caller must not change the Secret.
func (i *Inventory) Get(name string, class Class) (*corev1.Secret, bool) {
	known := i.entries[name]
	secret := map[Class]*corev1.Secret{
		BundleOrCurrent: cmp.Or(known.bundle, known.current), Current: known.current, Old: known.old, Bundle: known.bundle,
	}[class]
	return secret, secret != nil
}

// Observe adds a Secret, or replaces the one of the same name. It is for Secrets that were not observed at the start, for example because
// their labels had been removed.
func (i *Inventory) Observe(secret *corev1.Secret) {
	index := slices.IndexFunc(i.observed, func(s *corev1.Secret) bool { return s.Name == secret.Name })
	if index < 0 {
		i.observed = append(i.observed, secret.DeepCopy())
		return
	}
	i.observed[index] = secret.DeepCopy()
}

// Record notes the Secret that the API server returned for a request, and chooses its predecessor. It returns the request for the bundle,
// or nil if the config has none. Bundles are recorded like other Secrets.
func (i *Inventory) Record(request Request, secret *corev1.Secret, now time.Time) (*Request, error) {
	i.Observe(secret)
	if request.bundleFor != "" {
		bundled := i.entries[request.bundleFor]
		bundled.bundle = secret.DeepCopy()
		i.entries[request.bundleFor] = bundled
		return nil, nil // a bundle has no bundle
	}
	name := request.Config.LogicalName()
	recorded := entry{current: secret.DeepCopy(), bundle: i.entries[name].bundle}
	keep, err := keepsOld(request, secret, now)
	if err != nil {
		return nil, err
	}
	if keep {
		recorded.old = i.Newest(name, secret.Name)
	}
	i.entries[name] = recorded
	return bundleRequest(request, recorded, now)
}

// keepsOld reports whether the predecessor of the Secret is still needed.
func keepsOld(request Request, current *corev1.Secret, now time.Time) (bool, error) {
	if !request.KeepOld || request.IgnoreOld {
		return false, nil
	}
	if request.IgnoreOldAfter == 0 {
		return true, nil
	}
	issuedAt, err := timeOfLabel(current, LabelIssuedAt)
	return err == nil && now.Sub(issuedAt) < request.IgnoreOldAfter, err
}

// Newest returns the newest observed Secret of a logical name whose name is not the given one, or nil. Of Secrets that were created in
// the same second, it is the first one of the list.
func (i *Inventory) Newest(logicalName, except string) *corev1.Secret {
	var newest *corev1.Secret
	for _, secret := range i.observed {
		if secret.Name == except || !i.manages(secret) || secret.Labels[LabelName] != logicalName {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&secret.CreationTimestamp) {
			newest = secret
		}
	}
	return newest
}

func (i *Inventory) manages(secret *corev1.Secret) bool {
	return secret.Labels[LabelManagedBy] == ManagedBy && secret.Labels[LabelManagerIdentity] == i.options.Identity
}

// Unneeded returns those of the given Secrets that this identity manages and that are not the current, old or bundle Secret of a recorded
// request. Without any recorded request, that is all Secrets of the identity.
func (i *Inventory) Unneeded(listed []corev1.Secret) []corev1.Secret {
	needed := map[string]bool{}
	for known := range maps.Values(i.entries) {
		for _, secret := range []*corev1.Secret{known.current, known.old, known.bundle} {
			if secret != nil {
				needed[secret.Name] = true
			}
		}
	}
	var unneeded []corev1.Secret
	for index := range listed {
		if i.manages(&listed[index]) && !needed[listed[index].Name] {
			unneeded = append(unneeded, listed[index])
		}
	}
	return unneeded
}

// authority returns the CA that signs a certificate of that type, and the checksum of its data. An old CA that has expired does not sign,
// because bundles do not contain it.
func (i *Inventory) authority(name string, signer Signer, kind config.CertificateType, now time.Time) (*config.Authority, string, error) {
	known, ok := i.entries[name]
	if !ok {
		return nil, "", fmt.Errorf("secrets for name %q not found in internal store", name)
	}
	chosen := known.current
	wantsOld := signer == OldSigner || signer == DefaultSigner && (kind == config.Server || kind == config.ServerAndClient)
	if wantsOld && known.old != nil {
		expired, err := isExpired(known.old, now)
		if err != nil {
			return nil, "", err
		}
		if !expired {
			chosen = known.old
		}
	}
	parsed, err := config.ParseAuthority(chosen.Data)
	if err != nil {
		return nil, "", fmt.Errorf("read CA of secret %q: %w", chosen.Name, err)
	}
	return parsed, dataChecksum(chosen.Data), nil
}

func isExpired(secret *corev1.Secret, now time.Time) (bool, error) {
	life, expires, err := lifetimeOfLabels(secret)
	return expires && now.After(life.validUntil), err
}
