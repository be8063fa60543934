package rotation

import (
	"time"

	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/secrets"
	"github.com/espalier-dev/espalier/internal/secrets/config"
)

// Logical names of certificate authorities.
const (
	// RuntimeAuthority signs the certificates of webhooks in the runtime cluster, and of web UIs.
	RuntimeAuthority = "ca-garden-runtime"
	// ETCDAuthority signs the certificates of etcds and of their clients, and ETCDPeerAuthority the certificates of their members as peers.
	ETCDAuthority     = "ca-etcd"
	ETCDPeerAuthority = "ca-etcd-peer"
	// KubernetesAuthority signs the certificates of kube-apiserver and kube-controller-manager.
	KubernetesAuthority = "ca"
	// ClientAuthority signs the certificates of clients of kube-apiserver.
	ClientAuthority = "ca-client"
	// FrontProxyAuthority signs the certificate with which kube-apiserver passes requests on to API servers behind it.
	FrontProxyAuthority = "ca-front-proxy"
	// GardenerAuthority signs the certificates of the programs of Gardener.
	GardenerAuthority = "ca-gardener"
	// BasicAuthAuthority signs the certificate of the server that checks passwords for Istio.
	BasicAuthAuthority = "ca-virtual-garden-istio-basic-auth-server"
)

// Authority is a certificate authority of a Garden.
type Authority struct {
	// Name is the logical name of its Secret.
	Name string
	// CommonName is the common name in its certificate. Empty: the certificate has none.
	CommonName string
	// Purpose is the use of the authority, and Users are the programs that trust it, for the documentation.
	Purpose, Users string
	// RenewsItself is true if the operator replaces the authority before it expires. Only a rotation replaces the other authorities.
	RenewsItself bool
}

// Authorities are all certificate authorities, in the order in which they are generated.
var Authorities = []Authority{
	{Name: RuntimeAuthority, RenewsItself: true, Purpose: "signs certificates of webhooks in the runtime cluster", Users: "API servers"},
	{Name: ETCDAuthority, CommonName: "etcd", Purpose: "signs certificates of etcds and of their clients", Users: "etcds, API servers"},
	{Name: ETCDPeerAuthority, CommonName: "etcd-peer", Purpose: "signs certificates of members of etcds", Users: "etcds"},
	{
		Name: KubernetesAuthority, CommonName: "kubernetes", Purpose: "signs certificates of kube-apiserver and kube-controller-manager",
		Users: "all clients of the virtual cluster",
	},
	{
		Name: ClientAuthority, CommonName: "kubernetes-client", Purpose: "signs certificates of clients, and of gardenlets",
		Users: "kube-apiserver, kube-controller-manager",
	},
	{
		Name: FrontProxyAuthority, CommonName: "front-proxy", Purpose: "signs the certificate of `kube-aggregator`",
		Users: "kube-apiserver, gardener-apiserver",
	},
	{Name: GardenerAuthority, CommonName: "gardener", Purpose: "signs certificates of programs of Gardener", Users: "kube-apiserver"},
	{
		Name: BasicAuthAuthority, CommonName: "istio-basic-auth-server", RenewsItself: true,
		Purpose: "signs the certificate of the server that checks passwords of web UIs", Users: "gateway",
	},
}

// Lifetime of authorities with RenewsItself, and how long the predecessor of such an authority is trusted.
const (
	shortValidity = 720 * time.Hour
	shortOverlap  = 24 * time.Hour
)

// Request returns the request for the Secret of the authority.
func (a Authority) Request(phases Phases) secrets.Request {
	certificate := config.Certificate{Name: a.Name, CommonName: a.CommonName, Type: config.CA}
	if a.RenewsItself {
		certificate.Validity = ptr.To(shortValidity)
		return secrets.Request{Config: certificate, KeepOld: true, IgnoreOldAfter: shortOverlap}
	}
	return secrets.Request{Config: certificate, KeepOld: true, IgnoreOld: ForgetsOld(phases[CertificateAuthorities])}
}

// RenewedAuthorities returns the logical names of the authorities that are renewed without a rotation (RenewsItself).
func RenewedAuthorities() []string {
	var names []string
	for _, each := range Authorities {
		if each.RenewsItself {
			names = append(names, each.Name)
		}
	}
	return names
}

// ForgetsOld reports whether credentials from before a rotation in that phase are neither trusted nor used any more.
func ForgetsOld(phase operatorv1alpha1.RotationPhase) bool {
	return phase == operatorv1alpha1.RotationCompleting || phase == operatorv1alpha1.RotationCompleted
}
