package secrets

import (
	"bytes"
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
	// Aborted contains the keys and authorities whose last rotation leads back to the content from before an aborted rotation. The map keys
	// are logical names; the values are the times at which the aborted rotations began. The Secrets of the last rotation get the former
	// content. An authority with the former content signs certificates at once, because clients trust it already.
	Aborted map[string]time.Time
	// RenewedAuthorities are the logical names of the certificate authorities that are renewed before they expire. Other authorities are only
	// replaced by a rotation. Content that is not a certificate authority is renewed before it expires, whether or not it is in this list.
	RenewedAuthorities []string
	// Writers are the field managers under which this operator and earlier operators wrote Secrets. New writes use the first one. A Secret
	// without the labels of the secrets manager is adopted only if a field manager of this list wrote its data.
	Writers []string
	// ClockProblem is a sentence that says why the clock of this process cannot be trusted. It is empty if the clock can be trusted. If it is
	// not empty, no content is issued or renewed, and no predecessor is forgotten because of its age.
	ClockProblem string
}

// Inventory contains the Secrets that were observed at the start of a reconciliation and the Secrets that were requested since then. It
// decides about these Secrets and does no I/O. It is not safe for concurrent use. Each reconciliation needs a new Inventory.
type Inventory struct {
	options  Options
	observed []*corev1.Secret
	donors   []*corev1.Secret
	rotation map[string]string
	expiring []string
	early    []string
	entries  map[string]entry
}

// entry contains the recorded Secrets of a logical name. A field is nil if no such Secret is recorded.
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

// NewInventory decides which content is renewed. The argument observed contains the Secrets with LabelManagedBy and LabelManagerIdentity,
// in the order of the list from the API server; the Inventory ignores other Secrets in it. The argument donors contains the Secrets with
// LabelUseDataFor. NewInventory fails if it cannot parse a lifetime label.
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
		newest, err := inventory.lastRequested(name, now)
		if err != nil {
			return nil, err
		}
		inventory.rotation[name] = newest.Labels[LabelLastRotation]
		if err := inventory.renew(name, newest, now); err != nil {
			return nil, err
		}
	}
	for name, last := range options.RotationTimes {
		inventory.rotation[name] = labelOfTime(last)
	}
	slices.Sort(inventory.expiring)
	slices.Sort(inventory.early)
	return inventory, nil
}

// lastRequested returns the Secret of a logical name that was requested last, which is the newest Secret. It skips a Secret whose time of
// issue is in the future, because the clock was ahead when the label was set. If there is no other Secret, it returns such a Secret.
func (i *Inventory) lastRequested(name string, now time.Time) (*corev1.Secret, error) {
	newest, err := i.newest(name, "", func(secret *corev1.Secret) (bool, error) {
		life, _, err := lifetimeOfLabels(secret)
		return !life.isEarly(now), err
	})
	return cmp.Or(newest, i.Newest(name, "")), err
}

func (i *Inventory) renew(name string, newest *corev1.Secret, now time.Time) error {
	life, expires, err := lifetimeOfLabels(newest)
	early := life.isEarly(now)
	if err != nil || !expires || i.options.ClockProblem != "" || !early && !life.needsRenewal(now) {
		return err
	}
	rotated := isAuthority(newest) && !slices.Contains(i.options.RenewedAuthorities, name)
	switch {
	case rotated && early:
		i.early = append(i.early, name)
	case rotated:
		i.expiring = append(i.expiring, name)
	default:
		i.rotation[name] = labelOfTime(now)
	}
	return nil
}

func isAuthority(secret *corev1.Secret) bool {
	_, certificate := secret.Data[config.DataKeyCACertificate]
	_, key := secret.Data[config.DataKeyCAPrivateKey]
	return certificate && key
}

// ExpiringAuthorities returns the sorted logical names of certificate authorities that expire soon and that only a rotation replaces.
func (i *Inventory) ExpiringAuthorities() []string { return slices.Clone(i.expiring) }

// EarlyAuthorities returns the sorted logical names of certificate authorities that only a rotation replaces and that are not valid yet: a
// clock was ahead when they were issued.
func (i *Inventory) EarlyAuthorities() []string { return slices.Clone(i.early) }

// Get returns the recorded Secret of a logical name and a class, and false if there is none. The caller must not change the Secret.
func (i *Inventory) Get(name string, class Class) (*corev1.Secret, bool) {
	known := i.entries[name]
	secret := map[Class]*corev1.Secret{
		BundleOrCurrent: cmp.Or(known.bundle, known.current), Current: known.current, Old: known.old, Bundle: known.bundle,
	}[class]
	return secret, secret != nil
}

// Observe adds a Secret, or replaces the observed Secret of the same name. It is for Secrets that were not observed at the start, for
// example because their labels had been removed.
func (i *Inventory) Observe(secret *corev1.Secret) {
	index := slices.IndexFunc(i.observed, func(s *corev1.Secret) bool { return s.Name == secret.Name })
	if index < 0 {
		i.observed = append(i.observed, secret.DeepCopy())
		return
	}
	i.observed[index] = secret.DeepCopy()
}

// Record stores the Secret that the API server returned for a request, and chooses the predecessor of the Secret. It returns the request
// for the bundle, or nil if the config has no bundle. If the request is for a bundle, Record stores the bundle and returns nil.
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
	keep, err := i.keepsOld(request, secret, now)
	if err != nil {
		return nil, err
	}
	if keep {
		if recorded.old, err = i.predecessor(request, secret); err != nil {
			return nil, err
		}
	}
	i.entries[name] = recorded
	return bundleRequest(request, recorded, now)
}

// keepsOld reports whether the predecessor of the Secret is still needed.
func (i *Inventory) keepsOld(request Request, current *corev1.Secret, now time.Time) (bool, error) {
	if !request.KeepOld {
		return false, nil
	}
	if request.IgnoreOldAfter == 0 || i.options.ClockProblem != "" {
		return true, nil
	}
	issuedAt, err := timeOfLabel(current, LabelIssuedAt)
	return err == nil && now.Sub(issuedAt) < request.IgnoreOldAfter, err
}

// predecessor returns the newest Secret of the same logical name that a request keeps, or nil.
func (i *Inventory) predecessor(request Request, current *corev1.Secret) (*corev1.Secret, error) {
	rotated, err := rotationOf(current)
	if err != nil {
		return nil, err
	}
	return i.newest(request.Config.LogicalName(), current.Name, func(secret *corev1.Secret) (bool, error) {
		if hasSameData(secret, current) || i.wasForgotten(secret) {
			return false, nil
		}
		if !request.IgnoreOld {
			return true, nil
		}
		earlier, err := PrecedesRotation(secret, rotated)
		return !earlier, err
	})
}

// PrecedesRotation reports whether a Secret is from before a rotation that began at that time.
func PrecedesRotation(secret *corev1.Secret, began time.Time) (bool, error) {
	rotated, err := rotationOf(secret)
	return rotated.Unix() < began.Unix(), err
}

// rotationOf returns the start of the rotation that a Secret belongs to, or the zero time.
func rotationOf(secret *corev1.Secret) (time.Time, error) {
	if secret.Labels[LabelLastRotation] == "" {
		return time.Time{}, nil
	}
	return timeOfLabel(secret, LabelLastRotation)
}

// Newest returns the newest observed Secret of a logical name, nil if there is none. It ignores the Secret whose name is the argument
// except. For content that only a rotation replaces, the Secret of the later rotation is newer. Within a rotation, and for all other
// content, the Secret that was created later is newer. Of Secrets that were created in the same second, it returns the first in the list.
func (i *Inventory) Newest(logicalName, except string) *corev1.Secret {
	newest, _ := i.newest(logicalName, except, func(*corev1.Secret) (bool, error) { return true, nil }) // it never fails
	return newest
}

// Former returns the newest observed Secret of a logical name that precedes the rotation of the current Secret and has other data than the
// current Secret; nil if there is none. The current Secret must have been recorded.
func (i *Inventory) Former(logicalName string) (*corev1.Secret, error) {
	current := i.entries[logicalName].current
	if current == nil {
		return nil, fmt.Errorf("secrets for name %q not found in internal store", logicalName)
	}
	rotated, err := rotationOf(current)
	if err != nil {
		return nil, err
	}
	return i.newest(logicalName, current.Name, func(secret *corev1.Secret) (bool, error) {
		if hasSameData(secret, current) {
			return false, nil
		}
		return PrecedesRotation(secret, rotated)
	})
}

// hasSameData reports whether Secrets have the same content: a rotation that leads back has copied one to the other.
func hasSameData(a, b *corev1.Secret) bool { return maps.EqualFunc(a.Data, b.Data, bytes.Equal) }

// Before returns the newest observed Secret of a logical name from before a rotation, nil if there is none. The argument began is the
// start of the rotation. A Secret that a rotation has dropped, and that was restored later, does not count.
func (i *Inventory) Before(logicalName string, began time.Time) (*corev1.Secret, error) {
	return i.newest(logicalName, "", func(secret *corev1.Secret) (bool, error) {
		if i.wasForgotten(secret) {
			return false, nil
		}
		return PrecedesRotation(secret, began)
	})
}

// LeadsBack reports whether the content of a Secret is older than its rotation: it is from before an aborted rotation.
func LeadsBack(secret *corev1.Secret) bool {
	issued, err := timeOfLabel(secret, LabelIssuedAt)
	if err != nil {
		return false
	}
	rotated, err := rotationOf(secret)
	return err == nil && issued.Before(rotated)
}

// leadsBackTo returns the Secret whose content the current Secret of a logical name gets, nil if it gets new content.
func (i *Inventory) leadsBackTo(logicalName string) (*corev1.Secret, error) {
	began, aborted := i.options.Aborted[logicalName]
	if !aborted {
		return nil, nil //nolint:nilnil // it gets new content
	}
	return i.Before(logicalName, began)
}

// Certificates returns one Secret for each signed certificate, by the logical name of the certificate. It returns the recorded Secret. If
// no Secret was recorded, it returns the observed Secret that is valid longest.
func (i *Inventory) Certificates() map[string]*corev1.Secret {
	certificates := map[string]*corev1.Secret{}
	for _, secret := range i.observed {
		name := secret.Labels[LabelName]
		life, expires, err := lifetimeOfLabels(secret)
		if err != nil || !expires || !i.manages(secret) || secret.Labels[LabelSigningCAChecksum] == "" {
			continue
		}
		other := certificates[name]
		if other != nil {
			otherLife, _, _ := lifetimeOfLabels(other) // it was read before
			if !life.validUntil.After(otherLife.validUntil) {
				continue
			}
		}
		certificates[name] = cmp.Or(i.entries[name].current, secret)
	}
	return certificates
}

func (i *Inventory) newest(logicalName, except string, fits func(*corev1.Secret) (bool, error)) (*corev1.Secret, error) {
	var newest *corev1.Secret
	for _, secret := range i.observed {
		if secret.Name == except || !i.manages(secret) || secret.Labels[LabelName] != logicalName {
			continue
		}
		if fit, err := fits(secret); err != nil {
			return nil, err
		} else if !fit {
			continue
		}
		if newest == nil || i.isNewer(secret, newest) {
			newest = secret
		}
	}
	return newest, nil
}

// isNewer reports whether a Secret is newer than another Secret of the same logical name. For content that only a rotation replaces, the
// later rotation decides: a Secret that is restored from a backup gets a new creation time. Otherwise the creation time decides.
func (i *Inventory) isNewer(secret, other *corev1.Secret) bool {
	if i.isRotated(secret) && Generation(secret) != Generation(other) {
		return Generation(secret) > Generation(other)
	}
	return other.CreationTimestamp.Before(&secret.CreationTimestamp)
}

// isRotated reports whether only a rotation replaces the content of a Secret.
func (i *Inventory) isRotated(secret *corev1.Secret) bool {
	_, expires := secret.Labels[LabelValidUntil]
	return !expires || isAuthority(secret) && !slices.Contains(i.options.RenewedAuthorities, secret.Labels[LabelName])
}

func (i *Inventory) manages(secret *corev1.Secret) bool {
	return secret.Labels[LabelManagedBy] == ManagedBy && secret.Labels[LabelManagerIdentity] == i.options.Identity
}

// Unneeded returns the given Secrets that this identity manages and that are not the current, old or bundle Secret of a recorded request.
// If no request was recorded, it returns all observed Secrets of the identity. It does not return Secrets that another client created
// after the start of the reconciliation, because the Inventory does not know whether they are needed.
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
		secret := &listed[index]
		seen := slices.ContainsFunc(i.observed, func(s *corev1.Secret) bool { return s.Name == secret.Name && s.UID == secret.UID })
		if seen && i.manages(secret) && !needed[secret.Name] {
			unneeded = append(unneeded, listed[index])
		}
	}
	return unneeded
}

// authority returns the CA that signs a certificate of the type kind, and the checksum of the data of that CA. An old CA that has expired
// does not sign, because bundles do not contain it. An old CA that is not valid yet does not sign, because clients do not accept its
// certificates. After an aborted rotation, the current CA always signs, because clients trust it already.
func (i *Inventory) authority(name string, signer Signer, kind config.CertificateType, now time.Time) (*config.Authority, string, error) {
	known, ok := i.entries[name]
	if !ok {
		return nil, "", fmt.Errorf("secrets for name %q not found in internal store", name)
	}
	chosen := known.current
	wantsOld := signer == OldSigner || signer == DefaultSigner && (kind == config.Server || kind == config.ServerAndClient)
	if _, aborted := i.options.Aborted[name]; wantsOld && known.old != nil && !aborted {
		life, expires, err := lifetimeOfLabels(known.old)
		if err != nil {
			return nil, "", err
		}
		if !expires || !life.isOver(now) && !life.isEarly(now) {
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
	return expires && life.isOver(now), err
}
