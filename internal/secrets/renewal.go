package secrets

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// Renewals keep certificates valid while no reconciliation requests them.
type Renewals struct {
	// Created are the Secrets to create.
	Created []*corev1.Secret
	// Replaced maps each text that objects must no longer use to the text that replaces it. The texts are names of Secrets, and bundles of
	// certificate authorities in base64.
	Replaced map[string]string
}

// lineage identifies a group of signed certificates that replace each other. They have the same config and the same signer. If the signer
// renews itself, its successors count as the same signer: the field signer then is its logical name, and otherwise the checksum of its
// data.
type lineage struct{ name, config, signer string }

// Renewals plans the renewal of signed certificates from the observed Secrets alone. A certificate that expires soon, or whose signer has
// renewed itself, is issued again with the same subject, names, usages and validity. The new Secret has the same name as the Secret that a
// request for the certificate would create. The authorities that renew themselves must have been recorded before.
func (i *Inventory) Renewals(source config.Source) (Renewals, error) {
	renewals := Renewals{Replaced: map[string]string{}}
	for each, members := range i.lineages() {
		newest := members[0]
		current, err := i.reissued(newest, i.signer(each), source)
		if err != nil {
			return Renewals{}, fmt.Errorf("renew secret %q: %w", newest.Name, err)
		}
		if !slices.ContainsFunc(i.observed, func(s *corev1.Secret) bool { return s.Name == current.Name }) {
			renewals.Created = append(renewals.Created, current)
		}
		for _, member := range members {
			if member.Name != current.Name {
				renewals.Replaced[member.Name] = current.Name
			}
		}
	}
	for _, secret := range i.observed {
		bundle := i.entries[secret.Labels[LabelBundleFor]].bundle
		if bundle == nil || bundle.Name == secret.Name {
			continue
		}
		renewals.Replaced[secret.Name] = bundle.Name
		if text := encodedBundle(secret); text != "" {
			renewals.Replaced[text] = encodedBundle(bundle)
		}
	}
	slices.SortFunc(renewals.Created, func(a, b *corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
	return renewals, nil
}

func encodedBundle(secret *corev1.Secret) string {
	return base64.StdEncoding.EncodeToString(secret.Data[config.DataKeyCertificateBundle])
}

// lineages returns the observed signed certificates whose signer is known, by lineage. In each lineage the newest certificate is the
// first. A signer is unknown if a rotation has dropped it and it was restored later, unless the signer renews itself.
func (i *Inventory) lineages() map[lineage][]*corev1.Secret {
	signers := map[string]string{} // logical names, by the checksum of the data
	for _, secret := range i.observed {
		renewsItself := slices.Contains(i.options.RenewedAuthorities, secret.Labels[LabelName])
		if i.manages(secret) && isAuthority(secret) && (renewsItself || !i.wasForgotten(secret)) {
			signers[dataChecksum(secret.Data)] = secret.Labels[LabelName]
		}
	}
	lineages := map[lineage][]*corev1.Secret{}
	for _, secret := range i.observed {
		signer := secret.Labels[LabelSigningCAChecksum]
		authority, known := signers[signer]
		if !i.manages(secret) || !known || secret.Data[config.DataKeyCertificate] == nil || secret.Data[config.DataKeyPrivateKey] == nil {
			continue
		}
		if slices.Contains(i.options.RenewedAuthorities, authority) {
			signer = authority
		}
		each := lineage{name: secret.Labels[LabelName], config: secret.Labels[LabelConfigChecksum], signer: signer}
		lineages[each] = append(lineages[each], secret)
	}
	for _, members := range lineages {
		slices.SortStableFunc(members, func(a, b *corev1.Secret) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	}
	return lineages
}

// signer returns the authority that signs the next certificate of a lineage.
func (i *Inventory) signer(each lineage) *corev1.Secret {
	if recorded := i.entries[each.signer].current; recorded != nil {
		return recorded
	}
	index := slices.IndexFunc(i.observed, func(s *corev1.Secret) bool {
		return isAuthority(s) && (s.Labels[LabelName] == each.signer || dataChecksum(s.Data) == each.signer)
	})
	return i.observed[index]
}

// reissued returns the given Secret if it stays valid, and otherwise the Secret that replaces it.
func (i *Inventory) reissued(secret, signer *corev1.Secret, source config.Source) (*corev1.Secret, error) {
	rotation, checksum := secret.Labels[LabelLastRotation], dataChecksum(signer.Data)
	life, expires, err := lifetimeOfLabels(secret)
	if err != nil {
		return nil, err
	}
	if expires && life.needsRenewal(source.Now) {
		rotation = labelOfTime(source.Now)
	}
	if rotation == secret.Labels[LabelLastRotation] && checksum == secret.Labels[LabelSigningCAChecksum] {
		return secret, nil
	}
	hash, err := strconv.ParseUint(secret.Labels[LabelConfigChecksum], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read label %s: %w", LabelConfigChecksum, err)
	}
	certificate, err := config.CertificateOf(secret.Labels[LabelName], secret.Data)
	if err != nil {
		return nil, err
	}
	if certificate.SigningCA, err = config.ParseAuthority(signer.Data); err != nil {
		return nil, fmt.Errorf("read CA of secret %q: %w", signer.Name, err)
	}
	next := &corev1.Secret{Type: secret.Type, Immutable: ptr.To(true)}
	next.Namespace, next.Name = secret.Namespace, uniqueName(secret.Labels[LabelName], hash, checksum, rotation)
	if next.Data, err = certificate.Generate(source); err != nil {
		return nil, err
	}
	if life, err = lifetimeOf(Request{Config: certificate}, next, source.Now); err != nil {
		return nil, err
	}
	next.Labels = maps.Clone(secret.Labels)
	next.Labels[LabelLastRotation], next.Labels[LabelSigningCAChecksum] = rotation, checksum
	next.Labels[LabelIssuedAt], next.Labels[LabelValidUntil] = labelOfTime(life.issuedAt), labelOfTime(life.validUntil)
	return next, nil
}
