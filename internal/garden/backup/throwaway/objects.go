package throwaway

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/deployable"
	"github.com/espalier-dev/espalier/internal/egress"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/object"
	"github.com/espalier-dev/espalier/internal/garden/component/pods"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// Names of the Pods, of their Services, and of the Secrets with their credentials.
const (
	etcdName, serverName = "etcd", "kube-apiserver"
	configName           = "etcd-config"
)

const (
	etcdPort, wrapperPort, sidecarPort = 2379, 9095, 8080
	serverPort                         = 6443
	dataFolder                         = "/var/etcd/data"
	databaseFolder                     = dataFolder + "/new.etcd"
	// peerURL is the address of the only member. No other one connects to it.
	peerURL = "http://localhost:2380"
	// volumeSize is the size limit of the volume for the restored database, and for the snapshots from which etcd-backup-restore restores it.
	volumeSize = "24Gi"
	// graceSeconds is the grace period of Pods: their data are not needed.
	graceSeconds = 2
)

// metaOf returns the metadata of an object of a restoration.
func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: map[string]string{Label: "true"}}
}

func podLabels(app string) map[string]string { return map[string]string{Label: "true", "app": app} }

// etcdObjects returns the objects of etcd, the Pod last. Copied are the Secrets with the credentials for the snapshots.
func etcdObjects(p Programs, c Credentials, copied []corev1.Secret, metadataService bool) ([]client.Object, error) {
	config, err := etcdConfig()
	if err != nil {
		return nil, err
	}
	objects := []client.Object{
		denyAll(),
		policy(etcdName, "Allows the API server of the drill and the garden operator to connect to etcd, and etcd to read snapshots.",
			append(fromServer(), fromOperator(etcdPort)...), toStore(p, metadataService)),
	}
	for i := range copied {
		objects = append(objects, secret(copied[i].Name, copied[i].Data))
	}
	return append(objects,
		&corev1.ConfigMap{
			TypeMeta: object.Type("v1", "ConfigMap"), ObjectMeta: metaOf(configName), Data: map[string]string{"etcd.conf.yaml": config},
		},
		secret(etcdName+"-ca", map[string][]byte{secretconfig.DataKeyCertificateBundle: c.Authority}),
		secret(etcdName+"-server", c.Server), secret(etcdName+"-client", c.Client),
		service(etcdName, etcdPort), etcdPod(p)), nil
}

// serverObjects returns the objects of kube-apiserver, the Pod last. The parameter ofEtcd contains the credentials of etcd, c contains the
// credentials of kube-apiserver, and address is the IP address of the Service of etcd.
func serverObjects(p Programs, ofEtcd, c Credentials, encryption []byte, address string) []client.Object {
	return []client.Object{
		policy(serverName, "Allows the garden operator to connect to the API server of the drill, which connects to its etcd only.",
			fromOperator(serverPort), toETCD()),
		secret(serverName+"-etcd", withAuthority(ofEtcd.Client, ofEtcd.Authority)),
		secret(serverName+"-server", withAuthority(c.Server, c.Authority)),
		secret(serverName+"-encryption", map[string][]byte{secretconfig.DataKeyEncryptionConfiguration: encryption}),
		service(serverName, serverPort), serverPod(p, address),
	}
}

func secret(name string, data map[string][]byte) client.Object {
	return &corev1.Secret{TypeMeta: object.Type("v1", "Secret"), ObjectMeta: metaOf(name), Type: corev1.SecretTypeOpaque, Data: data}
}

// withAuthority returns the data of a Secret with a certificate, its key, and the authority of the other side.
func withAuthority(certificate map[string][]byte, authority []byte) map[string][]byte {
	return map[string][]byte{
		secretconfig.DataKeyCertificateBundle: authority,
		secretconfig.DataKeyCertificate:       certificate[secretconfig.DataKeyCertificate],
		secretconfig.DataKeyPrivateKey:        certificate[secretconfig.DataKeyPrivateKey],
	}
}

// quota returns the limit of the size of the database in bytes, as in the Garden.
func quota() int64 { return ptr.To(resource.MustParse(etcd.Quota)).Value() }

func service(name string, port int32) client.Object {
	return &corev1.Service{
		TypeMeta: object.Type("v1", "Service"), ObjectMeta: metaOf(name),
		Spec: corev1.ServiceSpec{
			Selector: podLabels(name), Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{object.ServicePort(name, port, port)},
		},
	}
}

// etcdConfig returns the configuration in the form in which etcd-backup-restore reads it and hands it on to etcd.
func etcdConfig() (string, error) {
	config, err := yaml.Marshal(map[string]any{
		"name": etcdName, "data-dir": databaseFolder, "metrics": "basic", "snapshot-count": 10000, "enable-grpc-gateway": true,
		"quota-backend-bytes": quota(), "initial-cluster-token": "etcd-cluster",
		"initial-cluster-state": "new", "initial-cluster": etcdName + "=" + peerURL,
		"auto-compaction-mode": "periodic", "auto-compaction-retention": "30m",
		"listen-peer-urls": "http://127.0.0.1:2380", "listen-client-urls": fmt.Sprintf("https://0.0.0.0:%d", etcdPort),
		"initial-advertise-peer-urls": map[string][]string{etcdName: {peerURL}},
		"advertise-client-urls":       map[string][]string{etcdName: {fmt.Sprintf("https://localhost:%d", etcdPort)}},
		"client-transport-security": map[string]any{
			"cert-file": serverFolder + "/tls.crt", "key-file": serverFolder + "/tls.key", "client-cert-auth": true,
			"trusted-ca-file": authorityFolder + "/" + secretconfig.DataKeyCertificateBundle, "auto-tls": false,
		},
	})
	if err != nil {
		return "", fmt.Errorf("encode configuration of etcd: %w", err)
	}
	return string(config), nil
}

// Folders of the containers of etcd, which both programs expect.
const (
	authorityFolder        = "/var/etcd/ssl/ca"
	serverFolder           = "/var/etcd/ssl/server"
	clientFolder           = "/var/etcd/ssl/client"
	sidecarAuthorityFolder = "/var/etcdbr/ssl/ca"
	sidecarServerFolder    = "/var/etcdbr/ssl/server"
	configFolder           = "/var/etcd/config"
)

// etcdPod returns the Pod of etcd. First, an init container with etcd-backup-restore restores the snapshot. Then etcd runs with
// etcd-backup-restore as a sidecar, as in the Garden. But the sidecar has no access to snapshots: it can neither write nor delete a
// snapshot.
func etcdPod(p Programs) *corev1.Pod {
	data := corev1.VolumeMount{Name: "data", MountPath: dataFolder}
	mount := func(name, path string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true}
	}
	bundle := "/" + secretconfig.DataKeyCertificateBundle
	names := []corev1.EnvVar{pods.FieldVariable("POD_NAME", "metadata.name"), pods.FieldVariable("POD_NAMESPACE", "metadata.namespace")}
	restore := withDefaults(corev1.Container{
		Name: "restore", Image: p.BackupRestore, Env: append(names[:2:2], p.Variables...),
		Args: append([]string{
			"restore", "--data-dir=" + databaseFolder, "--restoration-temp-snapshots-dir=" + dataFolder + "/restoration.temp",
			"--snapstore-temp-directory=" + dataFolder + "/temp", "--name=" + etcdName, "--initial-cluster=" + etcdName + "=" + peerURL,
			"--initial-advertise-peer-urls=" + peerURL,
			fmt.Sprintf("--embedded-etcd-quota-bytes=%d", quota()),
		}, p.Store...),
		VolumeMounts: append([]corev1.VolumeMount{data}, p.Mounts...),
	})
	sidecar := withDefaults(corev1.Container{
		Name: sidecarContainer, Image: p.BackupRestore, Env: names,
		Args: []string{
			"server", fmt.Sprintf("--server-port=%d", sidecarPort), "--data-dir=" + databaseFolder,
			"--restoration-temp-snapshots-dir=" + dataFolder + "/restoration.temp", "--snapstore-temp-directory=" + dataFolder + "/temp",
			"--cacert=" + authorityFolder + bundle, "--cert=" + clientFolder + "/tls.crt", "--key=" + clientFolder + "/tls.key",
			"--insecure-transport=false", "--insecure-skip-tls-verify=false", fmt.Sprintf("--endpoints=https://localhost:%d", etcdPort),
			fmt.Sprintf("--service-endpoints=https://localhost:%d", etcdPort), "--use-etcd-wrapper=true",
			"--server-cert=" + sidecarServerFolder + "/tls.crt", "--server-key=" + sidecarServerFolder + "/tls.key",
			fmt.Sprintf("--embedded-etcd-quota-bytes=%d", quota()),
		},
		VolumeMounts: []corev1.VolumeMount{
			data, mount(configName, configFolder), mount("ca", authorityFolder), mount("client", clientFolder), mount("server", sidecarServerFolder),
		},
	})
	server := withDefaults(corev1.Container{
		Name: etcdContainer, Image: p.ETCD,
		Args: []string{
			"start-etcd", fmt.Sprintf("--backup-restore-host-port=localhost:%d", sidecarPort), "--etcd-server-name=localhost",
			"--backup-restore-tls-enabled=true", "--backup-restore-ca-cert-bundle-path=" + sidecarAuthorityFolder + bundle,
			"--etcd-client-cert-path=" + clientFolder + "/tls.crt", "--etcd-client-key-path=" + clientFolder + "/tls.key",
			fmt.Sprintf("--etcd-client-port=%d", etcdPort), fmt.Sprintf("--etcd-wrapper-port=%d", wrapperPort),
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: pods.HTTPGet("/readyz", wrapperPort, corev1.URISchemeHTTPS), PeriodSeconds: 2, TimeoutSeconds: 5,
		},
		VolumeMounts: []corev1.VolumeMount{
			data, mount("ca", authorityFolder), mount("server", serverFolder), mount("client", clientFolder), mount("ca", sidecarAuthorityFolder),
		},
	})
	size := resource.MustParse(volumeSize)
	return pod(etcdName, corev1.PodSpec{
		InitContainers: []corev1.Container{restore}, Containers: []corev1.Container{server, sidecar},
		Volumes: append([]corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}},
			{Name: configName, VolumeSource: pods.ConfigMapSource(configName)},
			{Name: "ca", VolumeSource: pods.SecretSource(etcdName+"-ca", false)},
			{Name: "server", VolumeSource: pods.SecretSource(etcdName+"-server", true)},
			{Name: "client", VolumeSource: pods.SecretSource(etcdName+"-client", true)},
		}, p.Volumes...),
	})
}

// serverPod returns the Pod of kube-apiserver. kube-apiserver finds etcd without DNS, so that it needs no other connection. It calls no
// webhooks for requests that read, and its only client may do everything. It reads etcd without a cache: if an object cannot be decrypted,
// a cache could not be filled.
func serverPod(p Programs, address string) *corev1.Pod {
	const folder = "/srv/kubernetes/"
	server := folder + "server/"
	var m pods.Mounts
	m.AddSecret("etcd", folder+"etcd", serverName+"-etcd", true)
	m.AddSecret("server", folder+"server", serverName+"-server", true)
	m.AddSecret("encryption", folder+"encryption", serverName+"-encryption", true)
	c := withDefaults(corev1.Container{
		Name: serverName, Image: p.APIServer, Command: []string{"/usr/local/bin/kube-apiserver"},
		Args: append([]string{
			fmt.Sprintf("--etcd-servers=https://%s:%d", etcdName, etcdPort), "--etcd-cafile=" + folder + "etcd/bundle.crt",
			"--etcd-certfile=" + folder + "etcd/tls.crt", "--etcd-keyfile=" + folder + "etcd/tls.key",
			"--encryption-provider-config=" + folder + "encryption/" + secretconfig.DataKeyEncryptionConfiguration,
			fmt.Sprintf("--secure-port=%d", serverPort), "--tls-cert-file=" + server + "tls.crt", "--tls-private-key-file=" + server + "tls.key",
			"--client-ca-file=" + server + "bundle.crt", "--anonymous-auth=false", "--authorization-mode=AlwaysAllow",
			"--service-account-issuer=https://" + Namespace, "--service-account-signing-key-file=" + server + "tls.key",
			"--service-account-key-file=" + server + "tls.key",
			"--watch-cache=false", "--enable-priority-and-fairness=false", "--profiling=false", "--cert-dir=/tmp",
		}, p.Settings...),
		VolumeMounts: append(m.Paths, corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"}),
	})
	c.SecurityContext.ReadOnlyRootFilesystem = ptr.To(true)
	// The kernel does not start the program without this capability, because the file of the program requires it.
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
	return pod(serverName, corev1.PodSpec{
		Containers:  []corev1.Container{c},
		HostAliases: []corev1.HostAlias{{IP: address, Hostnames: []string{etcdName}}},
		Volumes: append(m.Volumes, corev1.Volume{
			Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}),
	})
}

func withDefaults(c corev1.Container) corev1.Container {
	c.ImagePullPolicy = corev1.PullIfNotPresent
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	c.Resources = pods.Requests("50m", "256Mi")
	c.SecurityContext = pods.ContainerSecurityContext()
	c.SecurityContext.ReadOnlyRootFilesystem = nil // both programs of etcd write files to their home folders
	return c
}

// pod returns a Pod that is not started again: a program that ends has failed.
func pod(name string, spec corev1.PodSpec) *corev1.Pod {
	m := metaOf(name)
	m.Labels = podLabels(name)
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.AutomountServiceAccountToken, spec.EnableServiceLinks = ptr.To(false), ptr.To(false)
	spec.TerminationGracePeriodSeconds = ptr.To[int64](graceSeconds)
	spec.SecurityContext = pods.PodSecurityContext()
	spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	return &corev1.Pod{TypeMeta: object.Type("v1", "Pod"), ObjectMeta: m, Spec: spec}
}

func denyAll() client.Object {
	o := policy("deny-all", "Denies all traffic.", nil, nil)
	o.Spec.PodSelector = metav1.LabelSelector{}
	return o
}

func policy(
	app, description string, from []networkingv1.NetworkPolicyIngressRule, to []networkingv1.NetworkPolicyEgressRule,
) *networkingv1.NetworkPolicy {
	m := metaOf(app)
	m.Annotations = map[string]string{resourcesv1alpha1.GardenerDescription: description}
	return &networkingv1.NetworkPolicy{
		TypeMeta: object.Type(networkingv1.SchemeGroupVersion.String(), "NetworkPolicy"), ObjectMeta: m,
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: podLabels(app)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, Ingress: from, Egress: to,
		},
	}
}

func tcp(ports ...int32) []networkingv1.NetworkPolicyPort {
	return egress.Ports([]corev1.Protocol{corev1.ProtocolTCP}, ports...)
}

func fromServer() []networkingv1.NetworkPolicyIngressRule {
	peer := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: podLabels(serverName)}}
	return []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}, Ports: tcp(etcdPort)}}
}

func fromOperator(port int32) []networkingv1.NetworkPolicyIngressRule {
	peer := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: deployable.Namespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "espalier-garden-operator"}},
	}
	return []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}, Ports: tcp(port)}}
}

func toETCD() []networkingv1.NetworkPolicyEgressRule {
	peer := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: podLabels(etcdName)}}
	return []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{peer}, Ports: tcp(etcdPort)}}
}

// toStore allows DNS and the connections that the main etcd may open for its backups. Snapshots in a folder need none.
func toStore(p Programs, metadataService bool) []networkingv1.NetworkPolicyEgressRule {
	if p.readsFolder() {
		return nil
	}
	without := egress.LinkLocal()
	if metadataService {
		without = nil
	}
	dns := networkingv1.NetworkPolicyEgressRule{
		Ports: egress.Ports([]corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP}, 53, 8053),
	}
	return append(egress.ToNetworks(egress.Everywhere(), without), dns)
}
