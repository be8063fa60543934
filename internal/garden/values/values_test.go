package values_test

import (
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/images"
	"github.com/espalier-dev/espalier/internal/garden/rotation"
	"github.com/espalier-dev/espalier/internal/garden/values"
)

func garden(changes ...func(*operatorv1alpha1.Garden)) *operatorv1alpha1.Garden {
	g := &operatorv1alpha1.Garden{Spec: operatorv1alpha1.GardenSpec{VirtualCluster: operatorv1alpha1.VirtualCluster{
		DNS:        operatorv1alpha1.DNS{Domains: []operatorv1alpha1.Domain{{Name: "example.com"}}},
		Kubernetes: operatorv1alpha1.Kubernetes{Version: "1.33.1"},
	}}}
	for _, each := range changes {
		each(g)
	}
	return g
}

func window(begin, end string) operatorv1alpha1.MaintenanceTimeWindow {
	return operatorv1alpha1.MaintenanceTimeWindow{Begin: begin, End: end}
}

func TestMaintenanceWindowIsInUTC(t *testing.T) {
	for sentence, tc := range map[string]struct {
		window        operatorv1alpha1.MaintenanceTimeWindow
		begin, length time.Duration
	}{
		"an offset":             {window("220000+0100", "233000+0100"), 21 * time.Hour, 90 * time.Minute},
		"over midnight":         {window("230000+0000", "010000+0000"), 23 * time.Hour, 2 * time.Hour},
		"the day before in UTC": {window("003000+0200", "013000+0200"), 22*time.Hour + 30*time.Minute, time.Hour},
		"the day after in UTC":  {window("230000-0300", "000000-0300"), 2 * time.Hour, time.Hour},
		"the whole day":         {window("000000+0000", "235959+0000"), 0, 0},
		"none":                  {window("", ""), 0, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			v, err := values.New(
				garden(func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Maintenance.TimeWindow = tc.window }), values.Operator{},
			)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Maintenance).To(Equal(values.Maintenance{Window: tc.window, Begin: tc.begin, Length: tc.length}))
		})
	}
	_, err := values.New(
		garden(func(g *operatorv1alpha1.Garden) { g.Spec.VirtualCluster.Maintenance.TimeWindow.Begin = "22:00" }), values.Operator{},
	)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("spec.virtualCluster.maintenance.timeWindow: begin: ")))
}

func TestMaintenanceWindowOpensAndCloses(t *testing.T) {
	type state struct {
		open    bool
		remains time.Duration
	}
	day := func(clock string) time.Time {
		at, err := time.Parse("2006-01-02 15:04:05.9 -0700", "2026-03-29 "+clock)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return at
	}
	plain, midnight := window("220000+0100", "233000+0100"), window("230000+0000", "010000+0000")
	for sentence, tc := range map[string]struct {
		window operatorv1alpha1.MaintenanceTimeWindow
		at     time.Time
		want   state
	}{
		"before the begin":              {plain, day("20:59:59.5 +0000"), state{false, time.Second / 2}},
		"the begin":                     {plain, day("21:00:00 +0000"), state{true, 90 * time.Minute}},
		"before the end":                {plain, day("22:29:59 +0000"), state{true, time.Second}},
		"the end":                       {plain, day("22:30:00 +0000"), state{false, 22*time.Hour + 30*time.Minute}},
		"a time in another zone":        {plain, day("02:45:00 +0530"), state{true, 75 * time.Minute}},
		"over midnight, before it":      {midnight, day("23:30:00 +0000"), state{true, 90 * time.Minute}},
		"over midnight, after it":       {midnight, day("00:30:00 +0000"), state{true, 30 * time.Minute}},
		"over midnight, after the end":  {midnight, day("01:00:00 +0000"), state{false, 22 * time.Hour}},
		"the whole day":                 {window("000000+0000", "235959+0000"), day("23:59:59.5 +0000"), state{true, 0}},
		"a begin that is also the end":  {window("100000+0000", "110000+0100"), day("12:00:00 +0000"), state{true, 0}},
		"begin and end in other places": {window("010000+0100", "010000-0300"), day("03:00:00 +0000"), state{true, time.Hour}},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			m, err := values.NewMaintenance(tc.window)
			g.Expect(err).NotTo(HaveOccurred())
			open, remains := m.IsAt(tc.at)
			g.Expect(state{open, remains}).To(Equal(tc.want))
		})
	}
}

func TestSettingsOfTheIngressControllerAreTexts(t *testing.T) {
	with := func(config string) (values.Values, error) {
		return values.New(garden(func(g *operatorv1alpha1.Garden) {
			g.Spec.RuntimeCluster.Ingress.Domains = []operatorv1alpha1.Domain{{Name: "ingress.example.com"}}
			g.Spec.RuntimeCluster.Ingress.Controller.ProviderConfig = &runtime.RawExtension{Raw: []byte(config)}
		}), values.Operator{})
	}
	g := NewWithT(t)
	v, err := with(`{"size": 1000000, "on": true, "text": "a"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Ingress).To(Equal(values.Ingress{
		Domains: []string{"ingress.example.com"}, Settings: map[string]string{"size": "1000000", "on": "true", "text": "a"},
	}))
	_, err = with(`[]`)
	g.Expect(err).To(MatchError(ContainSubstring("spec.runtimeCluster.ingress.controller.providerConfig: ")))
}

func TestSettingsOfAGarden(t *testing.T) {
	g := NewWithT(t)
	created := metav1.NewTime(time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC))
	from := garden(func(g *operatorv1alpha1.Garden) {
		g.UID, g.CreationTimestamp = "uid", created
		g.Spec.VirtualCluster.ControlPlane = &operatorv1alpha1.ControlPlane{HighAvailability: &operatorv1alpha1.HighAvailability{}}
		g.Spec.VirtualCluster.ETCD = &operatorv1alpha1.ETCD{Main: &operatorv1alpha1.ETCDMain{Backup: &operatorv1alpha1.Backup{
			Provider: "S3", SecretRef: corev1.LocalObjectReference{Name: "backup"},
		}}}
		g.Spec.RuntimeCluster.Settings = &operatorv1alpha1.Settings{
			LoadBalancerServices:  &operatorv1alpha1.LoadBalancerServices{Annotations: map[string]string{"a": "b"}},
			VerticalPodAutoscaler: &operatorv1alpha1.VerticalPodAutoscaler{Enabled: ptr.To(true), FeatureGates: map[string]bool{"InPlace": true}},
			TopologyAwareRouting:  &operatorv1alpha1.TopologyAwareRouting{Enabled: true},
		}
		g.Spec.DNS = &operatorv1alpha1.DNSManagement{Providers: []operatorv1alpha1.DNSProvider{{Name: "first", Type: "local"}}}
		g.Spec.Extensions = []operatorv1alpha1.GardenExtension{{Type: "a"}}
		g.Spec.RuntimeCluster.Provider.Region = ptr.To("here")
		g.Spec.RuntimeCluster.Networking.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		g.Spec.VirtualCluster.Networking.Services = operatorv1alpha1.CIDRList{"100.64.0.0/13"}
		g.Spec.VirtualCluster.Kubernetes.KubeAPIServer = &operatorv1alpha1.KubeAPIServer{
			SNI: &operatorv1alpha1.SNI{DomainPatterns: []string{"*.example.org"}},
		}
		g.Status.Credentials = &operatorv1alpha1.Credentials{
			EncryptionAtRest: &operatorv1alpha1.EncryptionAtRest{
				Resources: []string{"configmaps"}, Provider: &operatorv1alpha1.EncryptionProviderStatus{Type: "aesgcm"},
			},
			Rotation: &operatorv1alpha1.CredentialsRotation{
				CertificateAuthorities: &operatorv1alpha1.Rotation{Phase: operatorv1alpha1.RotationPrepared},
				ServiceAccountKey: &operatorv1alpha1.Rotation{
					Phase: operatorv1alpha1.RotationCompleted, LastCompletionTime: &created,
				},
				WorkloadIdentityKey: &operatorv1alpha1.Rotation{Phase: operatorv1alpha1.RotationCompleting, AbortedInitiationTime: &metav1.Time{}},
				ETCDEncryptionKey: &operatorv1alpha1.ETCDEncryptionKeyRotation{
					Rotation: operatorv1alpha1.Rotation{Phase: operatorv1alpha1.RotationPreparing},
				},
			},
		}
		g.Spec.VirtualCluster.Kubernetes.KubeControllerManager = &operatorv1alpha1.KubeControllerManager{
			CertificateSigningDuration: &metav1.Duration{Duration: time.Hour},
		}
		g.Spec.VirtualCluster.Gardener = operatorv1alpha1.Gardener{
			ClusterIdentity: "identity", APIServer: &operatorv1alpha1.GardenerAPIServer{FeatureGates: map[string]bool{"a": true}},
			AdmissionController: &operatorv1alpha1.GardenerAdmissionController{LogLevel: ptr.To("error")},
			ControllerManager:   &operatorv1alpha1.GardenerControllerManager{LogLevel: ptr.To("debug")},
			Scheduler:           &operatorv1alpha1.GardenerScheduler{LogLevel: ptr.To("info")},
			ResourceManager:     &operatorv1alpha1.GardenerResourceManager{AdditionalTargetNamespaces: []string{"a"}},
		}
	})
	v, err := values.New(from, values.Operator{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v).To(Equal(values.Values{
		Kubernetes: version.MustParseSemantic("1.33.1"), Domains: []string{"example.com"}, VerticalPodAutoscaler: true,
		TopologyAwareRouting: true, Region: "here", DualStack: true, Extensions: from.Spec.Extensions,
		RotatedBefore: sets.New(rotation.ServiceAccountKey), Aborting: sets.New(rotation.WorkloadIdentityKey),
		DNS: &values.DNS{
			Providers: from.Spec.DNS.Providers, Virtual: from.Spec.VirtualCluster.DNS.Domains,
			Ingress: from.Spec.RuntimeCluster.Ingress.AllDomains(),
		},
		Autoscaling:      *from.Spec.RuntimeCluster.Settings.VerticalPodAutoscaler,
		LoadBalancers:    *from.Spec.RuntimeCluster.Settings.LoadBalancerServices,
		HighAvailability: true, ETCDMain: *from.Spec.VirtualCluster.ETCD.Main, GardenUID: "uid", GardenCreated: created.Time,
		Networks:        values.Networks{Cluster: v.Networks.Cluster, Blocked: v.Networks.Blocked},
		ServiceNetworks: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/13")}, EncryptedResources: []string{"configmaps"},
		EncryptedProvider: "aesgcm",
		KubeAPIServer:     operatorv1alpha1.KubeAPIServer{SNI: &operatorv1alpha1.SNI{DomainPatterns: []string{"*.example.org"}}},
		Phases: rotation.Phases{
			rotation.CertificateAuthorities: operatorv1alpha1.RotationPrepared, rotation.ServiceAccountKey: operatorv1alpha1.RotationCompleted,
			rotation.ETCDEncryptionKey: operatorv1alpha1.RotationPreparing, rotation.WorkloadIdentityKey: operatorv1alpha1.RotationCompleting,
		},
		ClusterIdentity:             "identity",
		GardenerAPIServer:           operatorv1alpha1.GardenerAPIServer{FeatureGates: map[string]bool{"a": true}},
		GardenerAdmissionController: operatorv1alpha1.GardenerAdmissionController{LogLevel: ptr.To("error")},
		GardenerControllerManager:   operatorv1alpha1.GardenerControllerManager{LogLevel: ptr.To("debug")},
		GardenerScheduler:           operatorv1alpha1.GardenerScheduler{LogLevel: ptr.To("info")},
		TargetNamespaces:            []string{"a"},
		KubeControllerManager:       operatorv1alpha1.KubeControllerManager{CertificateSigningDuration: &metav1.Duration{Duration: time.Hour}},
	}))
	from.Spec.VirtualCluster.Gardener.APIServer.FeatureGates["a"] = false
	g.Expect(v.GardenerAPIServer.FeatureGates).To(HaveKeyWithValue("a", true))
	from.Spec.VirtualCluster.Kubernetes.KubeAPIServer.SNI.DomainPatterns[0] = "changed"
	g.Expect(v.KubeAPIServer.SNI.DomainPatterns).To(Equal([]string{"*.example.org"}))
	from.Spec.RuntimeCluster.Settings.LoadBalancerServices.Annotations["a"] = "c"
	g.Expect(v.LoadBalancers.Annotations).To(HaveKeyWithValue("a", "b"))
}

func TestNetworksOfServicesAreParsed(t *testing.T) {
	_, err := values.New(garden(func(g *operatorv1alpha1.Garden) {
		g.Spec.VirtualCluster.Networking.Services = operatorv1alpha1.CIDRList{"100.64.0.0"}
	}), values.Operator{})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("spec.virtualCluster.networking.services: parse network: ")))
}

func TestImagesOfProgramsOfOthersDependOnVersions(t *testing.T) {
	g := NewWithT(t)
	list, err := images.Parse([]byte(`images: [{name: a, repository: r, targetVersion: ">= 1.33"}]`))
	g.Expect(err).NotTo(HaveOccurred())
	v, err := values.New(garden(), values.Operator{Images: list})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.ExternalImage("a")).To(Equal("r:v1.33.1"))
}

func TestWhetherTheAutoscalerIsWanted(t *testing.T) {
	for sentence, tc := range map[string]struct {
		settings *operatorv1alpha1.Settings
		want     bool
	}{
		"no settings":        {},
		"no settings for it": {settings: &operatorv1alpha1.Settings{}},
		"settings without a switch": {
			settings: &operatorv1alpha1.Settings{VerticalPodAutoscaler: &operatorv1alpha1.VerticalPodAutoscaler{}}, want: true,
		},
		"enabled": {
			settings: &operatorv1alpha1.Settings{VerticalPodAutoscaler: &operatorv1alpha1.VerticalPodAutoscaler{Enabled: ptr.To(true)}}, want: true,
		},
		"disabled": {
			settings: &operatorv1alpha1.Settings{VerticalPodAutoscaler: &operatorv1alpha1.VerticalPodAutoscaler{Enabled: ptr.To(false)}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			garden := &operatorv1alpha1.Garden{}
			garden.Spec.RuntimeCluster.Settings = tc.settings
			v := values.OfAny(garden, values.Operator{})
			g.Expect(v.VerticalPodAutoscaler).To(Equal(tc.want))
			if tc.want {
				g.Expect(v.WithoutVPA()).To(BeEmpty())
			} else {
				g.Expect(v.WithoutVPA()).NotTo(BeEmpty())
			}
		})
	}
}

func TestPortsAreSortedAndTheOldValuesStay(t *testing.T) {
	g := NewWithT(t)
	old := values.Values{APIServerPorts: []int32{1}}
	g.Expect(old.WithFacts("", []int32{6443, 443, 6443}).APIServerPorts).To(Equal([]int32{443, 6443}))
	g.Expect(old.APIServerPorts).To(Equal([]int32{1}))
}
