package secrets

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// bundleRequest returns the request for the bundle of a recorded Secret: for certificate authorities that sign themselves and for RSA keys
// that are not for SSH. For other configs it returns nil.
func bundleRequest(request Request, recorded entry, now time.Time) (*Request, error) {
	name := request.Config.LogicalName()
	switch c := request.Config.(type) {
	case config.Certificate:
		if request.SignedBy != "" || c.SigningCA != nil {
			return nil, nil // signed certificates have no bundle
		}
		certificates, err := withOld(recorded, config.DataKeyCACertificate, now)
		return &Request{Config: config.CertificateBundle(name+"-bundle", certificates...), bundleFor: name}, err
	case config.RSAKey:
		if c.UsedForSSH {
			return nil, nil // keys for SSH have no bundle
		}
		keys, err := withOld(recorded, config.DataKeyRSAPrivateKey, now)
		return &Request{Config: config.PrivateKeyBundle(name+"-bundle", keys...), bundleFor: name}, err
	}
	return nil, nil // other configs have no bundle
}

// withOld returns the value of the current Secret, followed by the value of the old Secret unless the old Secret has expired.
func withOld(recorded entry, key string, now time.Time) ([][]byte, error) {
	current := recorded.current.Data[key]
	if recorded.old == nil {
		return [][]byte{current}, nil
	}
	expired, err := isExpired(recorded.old, now)
	if err != nil || expired {
		return [][]byte{current}, err
	}
	return [][]byte{current, recorded.old.Data[key]}, nil
}

// typeOf returns the type of a Secret with that data.
func typeOf(data map[string][]byte) corev1.SecretType {
	if len(data[corev1.TLSCertKey]) > 0 && len(data[corev1.TLSPrivateKeyKey]) > 0 {
		return corev1.SecretTypeTLS
	}
	return corev1.SecretTypeOpaque
}

// Dropped returns the name of an observed bundle that contains a key or certificate that may be needed and that the next bundle would not
// contain, because the Secret with that key or certificate was lost. If no bundle was observed, and there are former Secrets from several
// rotations, no bundle shows which one is needed: then Dropped returns the name of the next bundle. It returns "" if nothing is dropped,
// if the next bundle exists already, or if the request has no KeepOld. Expired certificates are not needed.
//
// A rotation that completes may drop keys whose Secrets exist. It must not drop a key that was lost: if the status is older than the last
// rotation, the lost key may be the key in use.
func (i *Inventory) Dropped(request, next Request, now time.Time) (string, error) {
	missing, err := i.Missing(next, now)
	if missing == "" || err != nil || !request.KeepOld {
		return "", err
	}
	data, err := next.Config.Generate(config.Source{Now: now})
	if err != nil {
		return "", err
	}
	name := request.Config.LogicalName()
	kept, former, bundles := blocksOf(data), "", i.bundlesOf(name)
	if len(bundles) == 0 && i.hasSeveralPredecessors(request) {
		return missing, nil
	}
	droppable := slices.Clone(kept)
	if request.IgnoreOld { // Secrets that precede the rotation; later ones exist if the status is older than the last rotation
		for _, each := range i.observed {
			if i.manages(each) && each.Labels[LabelName] == name && Generation(each) <= Generation(i.entries[name].current) {
				droppable = append(droppable, blocksOf(each.Data)...)
			}
		}
	}
	for _, bundle := range bundles {
		blocks := blocksOf(bundle.Data)
		if slices.ContainsFunc(blocks, func(each []byte) bool { return !contains(droppable, each) && !isExpiredCertificate(each, now) }) {
			former = bundle.Name
		}
	}
	return former, nil
}

// hasSeveralPredecessors reports whether the predecessors that a request keeps are from several rotations. In this function, a predecessor
// is an observed Secret of the same logical name with other data than the current Secret. With IgnoreOld, a Secret from an earlier
// rotation than the current Secret does not count. A Secret from a later rotation counts, too: it exists if the status is older than the
// last rotation.
func (i *Inventory) hasSeveralPredecessors(request Request) bool {
	name, generations := request.Config.LogicalName(), map[int64]bool{}
	current := i.entries[name].current
	for _, each := range i.observed {
		forgotten := request.IgnoreOld && Generation(each) < Generation(current)
		if i.manages(each) && each.Labels[LabelName] == name && !hasSameData(each, current) && !forgotten {
			generations[Generation(each)] = true
		}
	}
	return len(generations) > 1
}

// wasForgotten reports whether a rotation has dropped the key or certificate of a Secret, and the Secret was restored later. This is so if
// the observed bundles of the logical name do not contain the key or certificate. wasForgotten returns false in three other cases:
//
//   - No bundle of the logical name was observed.
//   - The bundles contain only content of earlier rotations. Then the bundles are from before the rotation of the Secret, and a later
//     bundle was lost. If an abort has restored content, this content also counts as content of the later rotation.
//   - The Secret is from an aborted rotation, and the abort is not complete. Then no rotation has dropped its content yet, although a
//     bundle from before the aborted rotation has the same content as the bundle after the abort.
func (i *Inventory) wasForgotten(secret *corev1.Secret) bool {
	name := secret.Labels[LabelName]
	if began, isAborted := i.options.Aborted[name]; isAborted && Generation(secret) == began.Unix() {
		return false
	}
	observed := map[string][]byte{}
	for _, each := range i.bundlesOf(name) {
		for key, value := range each.Data {
			observed[each.Name+"/"+key] = value
		}
	}
	bundled, own := blocksOf(observed), bundledBlocksOf(secret)
	if len(own) == 0 || contains(bundled, own[0]) {
		return false
	}
	var earlier, later [][]byte
	for _, each := range i.observed {
		switch {
		case !i.manages(each) || each.Labels[LabelName] != name:
		case Generation(each) < Generation(secret):
			earlier = append(earlier, bundledBlocksOf(each)...)
		case Generation(each) > Generation(secret):
			later = append(later, bundledBlocksOf(each)...)
		}
	}
	return slices.ContainsFunc(bundled, func(each []byte) bool { return !contains(earlier, each) || contains(later, each) })
}

// bundledBlocksOf returns the PEM blocks of a Secret that its bundle also contains: the certificate of an authority, or an RSA private
// key.
func bundledBlocksOf(secret *corev1.Secret) [][]byte {
	return blocksOf(map[string][]byte{
		"certificate": secret.Data[config.DataKeyCACertificate], "key": secret.Data[config.DataKeyRSAPrivateKey],
	})
}

// WasForgotten reports whether the key or certificate of the observed Secret with this name was rotated away, and the Secret was restored
// since.
func (i *Inventory) WasForgotten(name string) bool {
	return slices.ContainsFunc(i.observed, func(each *corev1.Secret) bool { return each.Name == name && i.wasForgotten(each) })
}

// bundlesOf returns the observed bundles of a logical name.
func (i *Inventory) bundlesOf(logicalName string) []*corev1.Secret {
	return slices.DeleteFunc(slices.Clone(i.observed), func(each *corev1.Secret) bool {
		return !i.manages(each) || each.Labels[LabelBundleFor] != logicalName
	})
}

func contains(blocks [][]byte, block []byte) bool {
	return slices.ContainsFunc(blocks, func(each []byte) bool { return bytes.Equal(each, block) })
}

// blocksOf returns the content of all PEM blocks.
func blocksOf(data map[string][]byte) [][]byte {
	var blocks [][]byte
	for _, text := range data {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			blocks = append(blocks, block.Bytes)
		}
	}
	return blocks
}

func isExpiredCertificate(block []byte, now time.Time) bool {
	certificate, err := x509.ParseCertificate(block)
	return err == nil && now.After(certificate.NotAfter)
}
