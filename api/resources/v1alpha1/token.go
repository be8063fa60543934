package v1alpha1

// Set by users and controllers on Secrets, to name the controller that handles them.
const (
	// ResourcePurpose is a label on Secrets. Values: PurposeTokenRequestor, PurposeTokenInvalidator; others have no effect. Missing: the token
	// requestor and the webhook that invalidates tokens ignore the Secret.
	ResourcePurpose = "resources.gardener.cloud/purpose"
	// PurposeTokenRequestor is a value that users set. It makes the token requestor write a token into the Secret and renew it.
	PurposeTokenRequestor = "token-requestor"
	// PurposeTokenInvalidator is set by the token invalidator on static token Secrets without a purpose: the webhook selects
	// Secrets by it.
	PurposeTokenInvalidator = "token-invalidator"
	// ResourceClass is a label that users set on Secrets for the token requestor. Value: the class of the token requestor that must process
	// the Secret, such as shoot or garden. Missing: only a token requestor without a class processes it.
	ResourceClass = "resources.gardener.cloud/class"
)

// Annotations that users set on Secrets for the token requestor.
const (
	// ServiceAccountName is the name of the ServiceAccount in the target. Missing: an error.
	ServiceAccountName = "serviceaccount.resources.gardener.cloud/name"
	// ServiceAccountNamespace is the namespace of the ServiceAccount. If the token requestor is configured with a target namespace, it uses
	// that namespace and ignores this annotation. Otherwise, if the annotation is missing: an error.
	ServiceAccountNamespace = "serviceaccount.resources.gardener.cloud/namespace"
	// ServiceAccountLabels are all labels of the ServiceAccount. Value: a JSON object of strings. Missing or empty: it has none.
	ServiceAccountLabels = "serviceaccount.resources.gardener.cloud/labels"
	// ServiceAccountTokenExpirationDuration is the requested lifetime of the token. Value: a Go duration of at least 10m. Missing: 12h.
	ServiceAccountTokenExpirationDuration = "serviceaccount.resources.gardener.cloud/token-expiration-duration"
	// ServiceAccountInjectCABundle, true: the token requestor also writes the certificate authority of the target, as key bundle.crt or into
	// the current cluster of the kubeconfig. False or missing: it does not, and removes bundle.crt.
	ServiceAccountInjectCABundle = "serviceaccount.resources.gardener.cloud/inject-ca-bundle"
	// TokenRequestorTargetSecretName and TokenRequestorTargetSecretNamespace name a Secret of the target that receives the token. Unless both
	// are set and not empty, the Secret with these annotations receives the token.
	TokenRequestorTargetSecretName = "token-requestor.resources.gardener.cloud/target-secret-name"
	// TokenRequestorTargetSecretNamespace: see TokenRequestorTargetSecretName.
	TokenRequestorTargetSecretNamespace = "token-requestor.resources.gardener.cloud/target-secret-namespace"
)

// Annotations that users of Espalier set on Secrets for the token requestor. Gardener does not know them.
const (
	// TokenAudiences are the audiences of the token. Value: audiences separated by commas. Missing: as the process is configured.
	TokenAudiences = "espalier.dev/token-audiences"
	// RenewToken, with any value that is not false: the token requestor renews the token at once, and removes the annotation in the same
	// write. Missing: it renews the token at the time in ServiceAccountTokenRenewTimestamp.
	RenewToken = "espalier.dev/renew-token"
)

// ServiceAccountTokenRenewTimestamp is an annotation that the token requestor sets on Secrets. Value: the time of the next
// renewal as RFC 3339 in UTC. Missing: the token is renewed at once.
const ServiceAccountTokenRenewTimestamp = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"

// Labels around the invalidation of static tokens.
const (
	// StaticTokenSkip is a label that users set on ServiceAccounts. Present with any value: the token invalidator does not invalidate static
	// tokens of the ServiceAccount. Missing: it does, if automountServiceAccountToken of the ServiceAccount is false.
	StaticTokenSkip = "token-invalidator.resources.gardener.cloud/skip"
	// StaticTokenConsider is a label that the token invalidator sets on Secrets. Value: true. If the label exists, with any value, the webhook
	// overwrites the token. Missing: the webhook removes an overwritten token, so that Kubernetes creates a new one.
	StaticTokenConsider = "token-invalidator.resources.gardener.cloud/consider"
)

// Keys of Secrets that hold tokens.
const (
	// DataKeyToken holds a token.
	DataKeyToken = "token"
	// DataKeyKubeconfig holds a kubeconfig, into which the token is written instead.
	DataKeyKubeconfig = "kubeconfig"
	// DataKeyCABundle holds the certificate authority of the API server that the token is for, in PEM.
	DataKeyCABundle = "bundle.crt"
)
