package chart

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry/remote"
)

// Signatures have the format of images that "cosign sign --key" writes. Such a signature is an artifact beside the chart. The tag of the
// artifact is derived from the digest of the chart, and its payloads have the type simple signing. The modules of cosign would add
// transparency logs, certificates of Fulcio, keys in cloud services and the bundle format of cosign 3, with several hundred packages.
// Plain keys need none of them and work offline.
const (
	mediaTypeSignature  = "application/vnd.dev.cosign.simplesigning.v1+json"
	annotationSignature = "dev.cosignproject.cosign/signature"
	// maxSignatures is the limit of signatures that are tried.
	maxSignatures = 20
	// maxPayload is the limit of a payload, in bytes.
	maxPayload = 64 << 10
)

// payload contains the fields of the signed document that are checked.
type payload struct {
	Critical struct {
		Type  string `json:"type"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
	} `json:"critical"`
}

const payloadType = "cosign container image signature"

// verifySignature returns an error unless one of the keys has signed the digest.
func verifySignature(ctx context.Context, repository *remote.Repository, signed digest.Digest, keys []*ecdsa.PublicKey) error {
	tag := strings.Replace(signed.String(), ":", "-", 1) + ".sig"
	manifest, _, err := fetchManifest(ctx, repository, tag)
	if err != nil {
		return fmt.Errorf("get signature %s: %w", tag, err)
	}
	tried := 0
	for _, layer := range manifest.Layers {
		if layer.MediaType != mediaTypeSignature || tried == maxSignatures {
			continue
		}
		tried++
		data, err := fetch(ctx, repository.Blobs(), layer, maxPayload)
		if err != nil {
			return fmt.Errorf("get payload of signature: %w", err)
		}
		if isSigned(data, layer.Annotations[annotationSignature], signed, keys) {
			return nil
		}
	}
	return fmt.Errorf("none of %d signatures is one of the policy's keys for this digest", tried)
}

// isSigned reports whether one of the keys has signed the payload and the payload names the digest.
func isSigned(data []byte, encoded string, signed digest.Digest, keys []*ecdsa.PublicKey) bool {
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	sum, valid := sha256.Sum256(data), false
	for _, key := range keys {
		valid = valid || ecdsa.VerifyASN1(key, sum[:], signature)
	}
	var p payload
	if !valid || json.Unmarshal(data, &p) != nil {
		return false
	}
	return p.Critical.Type == payloadType && p.Critical.Image.Digest == signed.String()
}

// parseKeys reads public keys as "cosign generate-key-pair" writes them.
func parseKeys(encoded []string) ([]*ecdsa.PublicKey, error) {
	var keys []*ecdsa.PublicKey
	for i, each := range encoded {
		block, _ := pem.Decode([]byte(each))
		if block == nil {
			return nil, fmt.Errorf("key %d is not in PEM format", i+1)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("key %d is not a public key: %w", i+1, err)
		}
		elliptic, ok := key.(*ecdsa.PublicKey)
		if !ok {
			return nil, fmt.Errorf("key %d: %w", i+1, errKeyType)
		}
		keys = append(keys, elliptic)
	}
	return keys, nil
}

var errKeyType = errors.New("only ECDSA keys, as cosign makes them, are supported")
