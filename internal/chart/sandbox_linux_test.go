package chart

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/chart/charttest"
)

// sandbox returns the default sandbox, whose program is the test binary. Cases that take forever shorten its time.
func sandbox() Sandbox {
	s := NewSandbox()
	charttest.Ease(&s.Memory, &s.Time)
	return s
}

func TestSandboxRendersAsTheProcessItself(t *testing.T) {
	g := NewWithT(t)
	g.Expect(os.Environ()).NotTo(BeEmpty(), "TestMain refuses to render with any variable")
	packed := charttest.Archive(t, charttest.Files{
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ .Values.a }}, b: 9007199254740993}",
		"crds/b.yaml":      "a",
	})
	values := Values{[]byte("a: b")}
	want, err := render(t.Context(), packed, values, release())
	g.Expect(err).NotTo(HaveOccurred())

	got, err := sandbox().Render(t.Context(), packed, values, release())
	g.Expect(err).NotTo(HaveOccurred())
	if charttest.WithRaceDetector {
		g.Expect(got.Unprotected).To(ConsistOf(HavePrefix("this binary was built with cgo")))
	} else if version, _ := landlock(); version >= 6 {
		g.Expect(got.Unprotected).To(BeEmpty())
	}
	got.Unprotected = nil
	g.Expect(got).To(BeComparableTo(want))
}

func TestSandboxReportsFailures(t *testing.T) {
	g := NewWithT(t)
	_, err := sandbox().Render(t.Context(), charttest.Archive(t, charttest.Files{"templates/a.yaml": "\n{{ .Values.a.b }}"}), nil, release())
	g.Expect(err).To(MatchError(&RenderError{
		Chart: "shop", Template: "shop/templates/a.yaml", Line: 2, Cause: "nil pointer evaluating interface {}.b",
	}))
}

func TestFailuresOfABusyMachineAreNotThoseOfTheChart(t *testing.T) {
	g := NewWithT(t)
	s := sandbox()
	s.Time = time.Nanosecond
	_, err := s.Render(t.Context(), charttest.Archive(t, nil), nil, release())
	g.Expect(err).To(MatchError(ErrTime))
	g.Expect(err).NotTo(BeAssignableToTypeOf(&RenderError{}))
	err = crashed(nil, "runtime: failed to create new OS thread (have 3 already; errno=11)\nfatal error: newosproc", 1)
	g.Expect(err).To(MatchError(ErrThreads))
	g.Expect(err).NotTo(BeAssignableToTypeOf(&RenderError{}))
}

func TestSandboxEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	_, err := sandbox().Render(ctx, charttest.Archive(t, endless()), nil, release())
	g.Expect(err).To(MatchError(context.Canceled))
}

func TestSandboxLimitsItsChildren(t *testing.T) {
	g := NewWithT(t)
	s := sandbox()
	for range cap(s.Slots) {
		s.Slots <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.Render(ctx, charttest.Archive(t, nil), nil, release())
	g.Expect(err).To(MatchError("wait to render chart: context deadline exceeded"))
	<-s.Slots
	for range 2 {
		_, err = s.Render(t.Context(), charttest.Archive(t, nil), nil, release())
		g.Expect(err).NotTo(HaveOccurred(), "a child that ended frees its slot")
	}
}

func TestSandboxNamesAProgramThatDoesNotRender(t *testing.T) {
	g := NewWithT(t)
	s := sandbox()
	s.Program = "/bin/false"
	_, err := s.Render(t.Context(), charttest.Archive(t, nil), nil, release())
	g.Expect(err).To(MatchError("render chart: child process ended without an answer: exit status 1"))
	s.Program = "/bin/true"
	_, err = s.Render(t.Context(), charttest.Archive(t, nil), nil, release())
	g.Expect(err).To(MatchError("render chart: the answer of the child process cannot be read"))
	s.Program = "/absent"
	_, err = s.Render(t.Context(), charttest.Archive(t, nil), nil, release())
	g.Expect(err).To(MatchError(HavePrefix("render chart: start child process: ")))
}

func TestProtectionsPreventFilesAndConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	t.Cleanup(func() { _ = os.Remove("/tmp/chart-probe") })
	for protection, want := range map[string]string{
		"": "<nil> <nil> <nil>", "opening": "too many open files", "landlock": "permission denied",
	} {
		t.Run(protection, func(t *testing.T) {
			g := NewWithT(t)
			if version, err := landlock(); protection == "landlock" && (version < 4 || charttest.WithRaceDetector) {
				t.Skipf("this kernel's Landlock has version %d (%v), or cgo is linked", version, err)
			}
			output, err := program(t, probeArgument, protection, listener.Addr().String()).Output()
			g.Expect(err).NotTo(HaveOccurred())
			if protection == "" {
				g.Expect(strings.TrimSpace(string(output))).To(Equal(want))
				return
			}
			g.Expect(strings.Count(string(output), want)).To(Equal(3), string(output))
		})
	}
}

func TestOlderKernelsAreNamed(t *testing.T) {
	g := NewWithT(t)
	attributes, lacking := handled(1)
	g.Expect(attributes.Handled_access_fs).To(Equal(uint64(0x1fff)))
	g.Expect(attributes.Handled_access_net).To(BeZero())
	g.Expect(lacking).To(Equal([]string{
		"Landlock version 1 of the kernel does not restrict truncation of files",
		"Landlock version 1 of the kernel does not restrict TCP",
		"Landlock version 1 of the kernel does not restrict control of devices",
		"Landlock version 1 of the kernel does not restrict signals and abstract Unix sockets",
	}))
	attributes, lacking = handled(6)
	g.Expect(attributes.Handled_access_fs).To(Equal(uint64(0xffff)))
	g.Expect(attributes.Handled_access_net).To(Equal(uint64(3)))
	g.Expect(lacking).To(BeEmpty())
}

// endless returns a chart whose template includes itself, through others, a billion times.
func endless() charttest.Files {
	var helpers strings.Builder
	for i := range 30 {
		fmt.Fprintf(&helpers, "{{ define \"a%d\" }}{{ include \"a%d\" . }}{{ include \"a%d\" . }}{{ end }}", i, i+1, i+1)
	}
	helpers.WriteString(`{{ define "a30" }}{{ end }}`)
	return charttest.Files{"templates/_a.tpl": helpers.String(), "templates/a.yaml": `{{ include "a0" . }}`}
}

// laughter returns a small YAML document that has a billion values.
func laughter() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n")
	for i := range 9 {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text.String()
}

func TestAttacksOnTheProcessAreRefused(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	var connections atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { connections.Add(1) }))
	t.Cleanup(server.Close)
	zeros := string(make([]byte, 30<<20))
	nested := string(charttest.Archive(t, charttest.Files{"a": zeros}))
	onlyMemory := fmt.Sprintf("render chart: rendering needs more than %d bytes of memory", 256<<20)

	for name, tc := range map[string]struct {
		chart  charttest.Files
		raw    []byte
		values string
		time   time.Duration
		memory bool
		want   string
	}{
		"an archive that is too large": {raw: make([]byte, MaxArchive+1), want: "render chart: archive is larger than 8388608 bytes"},
		"an archive that unpacks to more than is allowed": {
			chart: charttest.Files{"a": zeros, "b": zeros},
			want:  "render chart: archive is not a chart: decompressed chart is larger than the maximum size 33554432",
		},
		"archives in the archive that fill the memory": {
			chart: charttest.Files{
				"charts/a.tgz": nested, "charts/b.tgz": nested, "charts/c.tgz": nested, "charts/d.tgz": nested, "charts/e.tgz": nested,
				"charts/f.tgz": nested, "charts/g.tgz": nested, "charts/h.tgz": nested, "charts/i.tgz": nested, "charts/j.tgz": nested,
			},
			memory: true, want: onlyMemory,
		},
		"a file outside of the chart": {
			chart: charttest.Files{"../../etc/a": ""}, want: "render chart: archive is not a chart: chart illegally references parent directory",
		},
		"a list that fills the memory": {chart: charttest.Files{"templates/a.yaml": "{{ until 1000000000 }}"}, memory: true, want: onlyMemory},
		"a text that fills the memory": {
			chart: charttest.Files{"templates/a.yaml": `{{ repeat 1000000000 "a" }}`}, memory: true, want: onlyMemory,
		},
		"a loop that never ends": {
			chart: endless(), time: time.Second, want: "render chart: rendering takes longer than 1s",
		},
		"a template that includes itself": {
			chart: charttest.Files{"templates/a.yaml": `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`},
			want:  `render chart "shop": template shop/templates/a.yaml, line 1: nested reference name`,
		},
		"huge output": {
			chart: charttest.Files{"templates/a.yaml": "apiVersion: v1\nkind: A\na: {{ repeat 3000000 \"a\" }}"},
			want:  "render chart: output is larger than 2097152 bytes",
		},
		"defaults with a billion values": {
			chart: charttest.Files{"values.yaml": laughter()},
			want: "render chart: archive is not a chart: cannot load values.yaml: cannot unmarshal yaml document: " +
				"error converting YAML to JSON: yaml: document contains excessive aliasing",
		},
		"values with a billion values": {values: laughter(), want: `render chart "shop": source 1 of the values is not a YAML object`},
		"output with a billion values": {
			chart: charttest.Files{"templates/a.yaml": laughter()},
			want:  `render chart "shop": template shop/templates/a.yaml: document 1 of the output: not YAML`,
		},
		"output that is nested deeply": {
			chart: charttest.Files{"templates/a.yaml": `{{ repeat 100000 "[" }}`},
			want:  `render chart "shop": template shop/templates/a.yaml: document 1 of the output: not YAML`,
		},
		"the environment": {
			chart: charttest.Files{"templates/a.yaml": `{{ expandenv "$CHART_TEST" }}`},
			want: `render chart "shop": template shop/templates/a.yaml, line 1: not a template: parse error at (shop/templates/a.yaml:1): ` +
				`function "expandenv" not defined`,
		},
		"a file of the machine, by a schema": {
			chart: charttest.Files{"values.schema.json": `{"$ref": "file:///proc/self/environ"}`},
			want:  `render chart "shop": values.schema.json cannot be used; documents that it refers to are not read`,
		},
		"the network, by a schema": {
			chart: charttest.Files{"values.schema.json": `{"$ref": "` + server.URL + `"}`},
			want:  `render chart "shop": values.schema.json cannot be used; documents that it refers to are not read`,
		},
		"a secret value in a message": {
			chart: charttest.Files{"templates/a.yaml": `{{ fail (b64enc .Values.a) }}`}, values: "a: " + secret,
			want: `render chart "shop": template shop/templates/a.yaml, line 1: ended by the chart with a message that may contain values`,
		},
		"a value that is a template, evaluated by the chart": {
			chart: charttest.Files{"templates/a.yaml": `{{ tpl .Values.a . }}`}, values: "a: '{{ env \"" + secret + "\" }}'",
			want: `render chart "shop": template shop/templates/a.yaml, line 1: a value that the function tpl reads is not a template that works`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			if tc.memory && charttest.WithRaceDetector {
				t.Skip("the race detector needs more memory than the limit")
			}
			if tc.raw == nil {
				tc.raw = charttest.Archive(t, tc.chart)
			}
			s := sandbox()
			if tc.time > 0 {
				s.Time = tc.time
			}
			_, err := s.Render(t.Context(), tc.raw, Values{[]byte(tc.values)}, release())
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(err.Error()).NotTo(ContainSubstring(secret))
			g.Expect(connections.Load()).To(BeZero())
		})
	}
}

func TestAttacksWithoutEffect(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: "
	for name, tc := range map[string]struct{ template, values, want string }{
		"a file of the machine":    {template: `{{ .Files.Get "/etc/passwd" | quote }}`, want: ""},
		"files of the machine":     {template: `{{ len (.Files.Glob "/etc/*") | quote }}`, want: "0"},
		"a name of the network":    {template: `{{ getHostByName "localhost" | quote }}`, want: ""},
		"an object of the cluster": {template: `{{ lookup "v1" "Secret" "a" "b" | toJson | quote }}`, want: "{}"},
		"a value that is a template": {
			template: `{{ .Values.a | quote }}`, values: "a: '{{ .Release.Name }}'", want: "{{ .Release.Name }}",
		},
		"values with names of Helm's own objects": {
			template: `{{ .Release.Namespace | quote }}`, values: "Release: {Namespace: a}", want: "extension-shop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			packed := charttest.Archive(t, charttest.Files{"templates/a.yaml": head + tc.template})
			result, err := sandbox().Render(t.Context(), packed, Values{[]byte(tc.values)}, release())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Manifests[0].Objects).To(Equal([]map[string]any{configMap("a", map[string]any{"a": tc.want})}))
		})
	}
}

func TestBoundedBuffersRefuseToGrow(t *testing.T) {
	g := NewWithT(t)
	b := &bounded{limit: 4}
	_, err := b.Write(bytes.Repeat([]byte("a"), 3))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = b.Write(bytes.Repeat([]byte("d"), 2))
	g.Expect(err).To(HaveOccurred())
	g.Expect(b.full).To(BeTrue())
	g.Expect(b.String()).To(Equal("aaa"))
}
