package extensionvalidation

import (
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/admission/review"
)

// read decodes a specification written as YAML.
func read[Spec any](t *testing.T, text string) *Spec {
	t.Helper()
	g := NewWithT(t)
	encoded, err := yaml.YAMLToJSON([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	spec := new(Spec)
	g.Expect(review.Decode(encoded, spec)).To(Succeed())
	return spec
}

func TestDifferencesOfWorkers(t *testing.T) {
	for name, tc := range map[string]struct {
		now, before string
		want        []string
	}{
		"nothing":         {now: "{region: a, pools: []}", before: "{region: a}"},
		"text":            {now: "{region: a}", before: "{region: b}", want: []string{"Region: a != b"}},
		"the common part": {now: "{type: a}", before: "{type: b}", want: []string{"DefaultSpec.Type: a != b"}},
		"a pointer goes": {
			now: "{}", before: "{providerConfig: {a: b}}", want: []string{"DefaultSpec.ProviderConfig: <nil pointer> != runtime.RawExtension"},
		},
		"a pointer comes": {
			now: "{providerConfig: {a: b}}", before: "{}", want: []string{"DefaultSpec.ProviderConfig: runtime.RawExtension != <nil pointer>"},
		},
		"bytes that may be secret": {
			now: `{providerConfig: {a: b}}`, before: `{providerConfig: {a: c}}`,
			want: []string{"DefaultSpec.ProviderConfig: (hidden) != (hidden)"},
		},
		"a list comes": {
			now: "{pools: [{zones: [a, b]}]}", before: "{pools: [{}]}", want: []string{"Pools.slice[0].Zones: [a b] != <nil slice>"},
		},
		"a list goes": {
			now: "{pools: [{}]}", before: "{pools: [{zones: [a, b]}]}", want: []string{"Pools.slice[0].Zones: <nil slice> != [a b]"},
		},
		"an item comes": {
			now: "{pools: [{zones: [a, b]}]}", before: "{pools: [{zones: [a]}]}",
			want: []string{"Pools.slice[0].Zones.slice[1]: b != <no value>"},
		},
		"an item goes": {
			now: "{pools: [{zones: [a]}]}", before: "{pools: [{zones: [a, b]}]}",
			want: []string{"Pools.slice[0].Zones.slice[1]: <no value> != b"},
		},
		"an item of parts": {
			now: "{pools: [{dataVolumes: [{name: a}, {name: b, size: 1Gi}]}]}", before: "{pools: [{dataVolumes: [{name: a}]}]}",
			want: []string{`Pools.slice[0].DataVolumes.slice[1]: {"name":"b","size":"1Gi"} != <no value>`},
		},
		"numbers": {
			now: "{pools: [{maximum: 2}]}", before: "{pools: [{maximum: 3}]}", want: []string{"Pools.slice[0].Maximum: 2 != 3"},
		},
		"numbers or text": {
			now: "{pools: [{maxSurge: 1}]}", before: "{pools: [{maxSurge: 10%}]}",
			want: []string{
				"Pools.slice[0].MaxSurge.Type: 0 != 1", "Pools.slice[0].MaxSurge.IntVal: 1 != 0", "Pools.slice[0].MaxSurge.StrVal:  != 10%",
			},
		},
		"truth": {
			now: "{pools: [{volume: {encrypted: true}}]}", before: "{pools: [{volume: {encrypted: false}}]}",
			want: []string{"Pools.slice[0].Volume.Encrypted: true != false"},
		},
		"keys, sorted": {
			now: "{pools: [{labels: {c: d, a: b}}]}", before: "{pools: [{labels: {a: c, e: f, b: x}}]}",
			want: []string{
				"Pools.slice[0].Labels.map[a]: b != c", "Pools.slice[0].Labels.map[b]: <does not have key> != x",
				"Pools.slice[0].Labels.map[c]: d != <does not have key>", "Pools.slice[0].Labels.map[e]: <does not have key> != f",
			},
		},
		"a map comes": {
			now: "{pools: [{labels: {a: b}}]}", before: "{pools: [{}]}", want: []string{"Pools.slice[0].Labels: map[a:b] != <nil map>"},
		},
		"a map goes": {
			now: "{pools: [{}]}", before: "{pools: [{labels: {a: b}}]}", want: []string{"Pools.slice[0].Labels: <nil map> != map[a:b]"},
		},
		"an empty map is none": {now: "{pools: [{labels: {}}]}", before: "{pools: [{}]}"},
		"quantities": {
			now:    "{pools: [{nodeTemplate: {capacity: {cpu: 500m, memory: 1Gi}}}]}",
			before: "{pools: [{nodeTemplate: {capacity: {cpu: '1', memory: 1024Mi}}}]}",
			want:   []string{`Pools.slice[0].NodeTemplate.Capacity.map[cpu]: "500m" != "1"`},
		},
		"durations": {
			now:    "{pools: [{machineControllerManager: {machineDrainTimeout: 90s}}]}",
			before: "{pools: [{machineControllerManager: {machineDrainTimeout: 2m}}]}",
			want:   []string{"Pools.slice[0].MachineControllerManagerSettings.MachineDrainTimeout.Duration: 1m30s != 2m0s"},
		},
		"times": {
			now: "{pools: [{taints: [{timeAdded: 2026-01-02T03:04:05Z}]}]}", before: "{pools: [{taints: [{timeAdded: 2026-01-02T03:04:06Z}]}]}",
			want: []string{`Pools.slice[0].Taints.slice[0].TimeAdded: "2026-01-02T03:04:05Z" != "2026-01-02T03:04:06Z"`},
		},
		"secrets": {
			now: "{pools: [{userData: YQ==}]}", before: "{pools: [{userData: Yg==}]}",
			want: []string{`Pools.slice[0].UserData: (hidden) != (hidden)`},
		},
		"secrets within others": {now: "{pools: [{name: a, userData: YQ==}]}", before: "{}", want: []string{
			`Pools: [{"machineType":"","maximum":0,"maxSurge":0,"maxUnavailable":0,"machineImage":{"name":"","version":""},"minimum":0,` +
				`"name":"a","userData":"(hidden)"}] != <nil slice>`,
		}},
		"the order is that of the fields": {
			now: "{secretRef: {name: a, namespace: b}, region: c, type: d}", before: "{}",
			want: []string{"DefaultSpec.Type: d != ", "Region: c != ", "SecretRef.Name: a != ", "SecretRef.Namespace: b != "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(differences(read[workerSpec](t, tc.now), read[workerSpec](t, tc.before))).To(Equal(tc.want))
		})
	}
}

func TestDifferencesOfFilesHideWhatIsInThem(t *testing.T) {
	now := read[operatingSystemConfigSpec](t, "{files: [{path: a, content: {inline: {data: hush}}}]}")
	before := read[operatingSystemConfigSpec](t, "{files: [{path: a, content: {inline: {data: secret}}}]}")
	NewWithT(t).Expect(differences(now, before)).To(Equal([]string{"Files.slice[0].Content.Inline.Data: (hidden) != (hidden)"}))
}

func TestDifferencesOfUnitsHideWhatIsInThem(t *testing.T) {
	for name, tc := range map[string]struct {
		now, before, want string
	}{
		"the unit": {
			now: "{units: [{content: hush}]}", before: "{units: [{content: secret}]}", want: "Units.slice[0].Content: (hidden) != (hidden)",
		},
		"the unit goes": {
			now: "{units: [{name: a}]}", before: "{units: [{name: a, content: secret}]}",
			want: "Units.slice[0].Content: <nil pointer> != string",
		},
		"a drop-in": {
			now: "{units: [{dropIns: [{content: hush}]}]}", before: "{units: [{dropIns: [{content: secret}]}]}",
			want: "Units.slice[0].DropIns.slice[0].Content: (hidden) != (hidden)",
		},
		"a whole unit": {
			now: "{}", before: "{units: [{name: a, content: secret, dropIns: [{name: b, content: secret}]}]}",
			want: `Units: <nil slice> != [{"name":"a","content":"(hidden)","dropIns":[{"name":"b","content":"(hidden)"}]}]`,
		},
		"a provider's own": {
			now: "{providerConfig: {a: hush}}", before: "{providerConfig: {a: secret}}",
			want: "DefaultSpec.ProviderConfig: (hidden) != (hidden)",
		},
		"a provider's own, which goes": {
			now: "{}", before: "{providerConfig: {a: secret}}", want: "DefaultSpec.ProviderConfig: <nil pointer> != runtime.RawExtension",
		},
	} {
		t.Run(name, func(t *testing.T) {
			now, before := read[operatingSystemConfigSpec](t, tc.now), read[operatingSystemConfigSpec](t, tc.before)
			NewWithT(t).Expect(differences(now, before)).To(Equal([]string{tc.want}))
		})
	}
}

func TestAProvidersConfigurationWithinAPoolIsHidden(t *testing.T) {
	now, before := read[workerSpec](t, "{}"), read[workerSpec](t, "{pools: [{providerConfig: {a: secret}}]}")
	NewWithT(t).Expect(differences(now, before)).To(Equal([]string{
		`Pools: <nil slice> != [{"machineType":"","maximum":0,"maxSurge":0,"maxUnavailable":0,"machineImage":{"name":"","version":""},` +
			`"minimum":0,"name":"","providerConfig":"(hidden)"}]`,
	}))
}

func TestDifferencesShowTheBeginningOfLongValues(t *testing.T) {
	now := &workerSpec{Region: strings.Repeat("a", 5000), Pools: []workerPool{{Labels: map[string]string{strings.Repeat("k", 3000): "v"}}}}
	before := &workerSpec{Region: "b", Pools: []workerPool{{Labels: map[string]string{"l": "v"}}}}
	NewWithT(t).Expect(differences(now, before)).To(Equal([]string{
		"Region: " + strings.Repeat("a", 1024) + "… (cut, 5000 bytes in all) != b",
		"Pools.slice[0].Labels.map[" + strings.Repeat("k", 1024) + "… (cut, 3000 bytes in all)]: v != <does not have key>",
		"Pools.slice[0].Labels.map[l]: <does not have key> != v",
	}))
}

func TestAtMostTenDifferencesAreListed(t *testing.T) {
	now, before := &workerSpec{}, &workerSpec{}
	var want []string
	for i := range 30 {
		now.Pools, before.Pools = append(now.Pools, workerPool{Name: "a"}), append(before.Pools, workerPool{Name: "b"})
		if i < 10 {
			want = append(want, "Pools.slice["+strconv.Itoa(i)+"].Name: a != b")
		}
	}
	NewWithT(t).Expect(differences(now, before)).To(Equal(want))
}

func TestMoreThanTenKeysAreCutToo(t *testing.T) {
	now, before := &etcdSpec{Labels: map[string]string{}}, &etcdSpec{Labels: map[string]string{"k": "v"}}
	for i := range 30 {
		now.Labels[strconv.Itoa(i)] = "v"
	}
	NewWithT(t).Expect(differences(now, before)).To(HaveLen(10))
}
