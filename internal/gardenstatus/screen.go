package gardenstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/excerpt"
)

const (
	// width is the number of columns of a screen.
	width = 80
	// maxTasks and maxCredentials limit the tasks and credentials of a screen.
	maxTasks, maxCredentials = 8, 3
	// maxText limits texts of others, in bytes.
	maxText = 400
)

// Screen is the state of a Garden.
type Screen struct {
	Name string `json:"name"`
	// Operation is the current or last operation; nil if there was none.
	Operation *operatorv1alpha1.LastOperation `json:"operation,omitempty"`
	// Done and Total count the tasks that have ended as desired or had nothing to do, and all tasks.
	Done    int    `json:"done"`
	Total   int    `json:"total"`
	Problem string `json:"problem,omitempty"`
	// PausedUntil is the value of the annotation espalier.dev/paused-until.
	PausedUntil string                  `json:"pausedUntil,omitempty"`
	Versions    Versions                `json:"versions"`
	Tasks       []operatorv1alpha1.Task `json:"tasks"` // not done
	Rotations   []Rotation              `json:"rotations"`
	Etcds       []Etcd                  `json:"etcds"`
	Credentials []Credential            `json:"credentials"` // the first to end first
	Conditions  []Condition             `json:"conditions"`
	Unknown     []string                `json:"unknown,omitempty"`
}

// Versions are the versions of the virtual cluster, and of the operator that acted last.
type Versions struct {
	Kubernetes string `json:"kubernetes"`
	Gardener   string `json:"gardener,omitempty"`
}

// Rotation is a rotation of a credential.
type Rotation struct {
	Credential string `json:"credential"`
	// Phase is its phase. It is Preparing for a rotation in one step, which has no phase in the status of the Garden.
	Phase string `json:"phase"`
	// Aborted is true if it leads back to the former credential, because the user has aborted a rotation.
	Aborted bool `json:"aborted,omitempty"`
	// Since is when it began; for an aborted rotation, when the abort began.
	Since metav1.Time `json:"since"`
}

// Condition is a condition of a Garden.
type Condition struct {
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Since   metav1.Time `json:"since"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
}

// Of returns the screen of a Garden.
func Of(garden *operatorv1alpha1.Garden, facts Facts) Screen {
	s := Screen{
		Name: garden.Name, Operation: garden.Status.LastOperation, Total: len(garden.Status.Tasks),
		PausedUntil: garden.Annotations[operatorv1alpha1.AnnotationPausedUntil],
		Versions:    Versions{Kubernetes: garden.Spec.VirtualCluster.Kubernetes.Version},
		Tasks:       []operatorv1alpha1.Task{}, Rotations: rotationsOf(garden), Etcds: append([]Etcd{}, facts.Etcds...),
		Credentials: append([]Credential{}, facts.Credentials...),
		Conditions:  make([]Condition, 0, len(garden.Status.Conditions)), Unknown: facts.Unknown,
	}
	if garden.Status.Gardener != nil {
		s.Versions.Gardener = garden.Status.Gardener.Version
	}
	for _, task := range garden.Status.Tasks {
		if task.State == operatorv1alpha1.TaskSucceeded || task.State == operatorv1alpha1.TaskSkipped {
			s.Done++
			continue
		}
		s.Tasks = append(s.Tasks, task)
	}
	for _, c := range garden.Status.Conditions {
		s.Conditions = append(s.Conditions, Condition{string(c.Type), string(c.Status), c.LastTransitionTime, c.Reason, c.Message})
	}
	switch {
	case s.Operation == nil:
		s.Problem = "no operation has begun: garden-operator must run in this cluster"
	case garden.Status.ObservedGeneration != garden.Generation:
		s.Problem = fmt.Sprintf("generation %d of the spec is not processed yet", garden.Generation)
	}
	return s
}

// rotationsOf returns the rotations of a Garden that have not completed, in the order of their names.
func rotationsOf(garden *operatorv1alpha1.Garden) []Rotation {
	all := []Rotation{}
	if garden.Status.Credentials == nil || garden.Status.Credentials.Rotation == nil {
		return all
	}
	text, err := json.Marshal(garden.Status.Credentials.Rotation)
	fields := map[string]struct {
		Phase                 string       `json:"phase"`
		LastInitiationTime    *metav1.Time `json:"lastInitiationTime"`
		LastCompletionTime    *metav1.Time `json:"lastCompletionTime"`
		AbortedInitiationTime *metav1.Time `json:"abortedInitiationTime"`
	}{}
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return all
	}
	for name, each := range fields {
		if each.Phase == "" && each.LastInitiationTime != nil && // in one step
			(each.LastCompletionTime == nil || each.LastCompletionTime.Before(each.LastInitiationTime)) {
			each.Phase = string(operatorv1alpha1.RotationPreparing)
		}
		if each.Phase == "" || each.Phase == string(operatorv1alpha1.RotationCompleted) {
			continue
		}
		rotation := Rotation{Credential: name, Phase: each.Phase, Aborted: each.AbortedInitiationTime != nil}
		if each.LastInitiationTime != nil {
			rotation.Since = *each.LastInitiationTime
		}
		all = append(all, rotation)
	}
	slices.SortFunc(all, func(a, b Rotation) int { return strings.Compare(a.Credential, b.Credential) })
	return all
}

// quantity returns the bytes of a quantity of an object; 0 if there is none.
func quantity(object map[string]any, path ...string) int64 {
	text, _, _ := unstructured.NestedString(object, path...)
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return parsed.Value()
}

// colour is the code of a colour of a terminal.
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// printer writes lines of at most 80 columns.
type printer struct {
	strings.Builder
	colours bool
	now     time.Time
}

// Text returns the screen as text, with the colours of terminals if colours is true.
func (s Screen) Text(now time.Time, colours bool) string {
	p := &printer{colours: colours, now: now}
	p.line(plainText("Garden "+s.Name), "")
	if o := s.Operation; o != nil {
		p.fact("operation", fmt.Sprintf("%s %s, %d %%, %d of %d tasks, %s ago", o.Type, o.State, o.Progress, s.Done, s.Total,
			p.age(o.LastUpdateTime)), colourOf(o.State))
		if o.State == operatorv1alpha1.LastOperationError || len(s.Tasks) == 0 {
			p.fact("description", o.Description, "")
		}
	}
	p.fact("problem", s.Problem, yellow)
	if s.PausedUntil != "" {
		p.fact("paused until", strings.ReplaceAll(s.PausedUntil, "true", "resumed"), yellow)
	}
	versions := "Kubernetes " + s.Versions.Kubernetes
	if s.Versions.Gardener != "" {
		versions += ", Gardener " + s.Versions.Gardener
	}
	p.fact("versions", versions, "")
	for _, each := range s.Rotations {
		begun := "begun"
		if each.Aborted {
			begun = "aborted"
		}
		p.fact("rotation", fmt.Sprintf("%s %s, %s %s ago", each.Credential, each.Phase, begun, p.age(each.Since)), yellow)
	}
	for _, each := range s.Etcds {
		p.fact("etcd", p.etcd(each), etcdColour(each))
	}
	first := s.Credentials[:min(len(s.Credentials), maxCredentials)]
	ends := make([]string, 0, len(first))
	for _, each := range first {
		ends = append(ends, fmt.Sprintf("%s in %s", each.Name, duration.HumanDuration(each.Ends.Sub(p.now))))
	}
	p.fact("first to end", strings.Join(ends, ", "), "")
	for _, each := range s.Unknown {
		p.fact("not known", each, yellow)
	}
	p.tasks(s.Tasks)
	p.conditions(s.Conditions)
	return p.String()
}

func colourOf(state operatorv1alpha1.LastOperationState) colour {
	switch state {
	case operatorv1alpha1.LastOperationSucceeded:
		return green
	case operatorv1alpha1.LastOperationError:
		return red
	default:
		return yellow
	}
}

func etcdColour(e Etcd) colour {
	switch {
	case e.Ready < e.Members:
		return red
	case e.Quota > 0 && e.Size > e.Quota/10*8:
		return yellow
	}
	return ""
}

func (p *printer) etcd(e Etcd) string {
	text := fmt.Sprintf("%s %d of %d ready", strings.TrimPrefix(e.Name, "virtual-garden-etcd-"), e.Ready, e.Members)
	switch {
	case e.Size > 0 && e.Quota > 0:
		text += fmt.Sprintf(", %s of %s (%d %%)", bytesText(e.Size), bytesText(e.Quota), e.Size*100/e.Quota)
	case e.Quota > 0:
		text += ", quota " + bytesText(e.Quota)
	}
	if e.FullSnapshot != nil {
		text += ", full snapshot " + p.age(*e.FullSnapshot) + " ago"
	}
	if e.DeltaSnapshot != nil {
		text += ", delta " + p.age(*e.DeltaSnapshot) + " ago"
	}
	return text
}

func bytesText(value int64) string {
	const mebi = 1 << 20
	if value >= 1<<30 && value%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", value>>30)
	}
	return fmt.Sprintf("%d MiB", value/mebi)
}

func (p *printer) tasks(all []operatorv1alpha1.Task) {
	if len(all) == 0 {
		return
	}
	order := []operatorv1alpha1.TaskState{operatorv1alpha1.TaskFailed, operatorv1alpha1.TaskRunning, operatorv1alpha1.TaskPending}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b operatorv1alpha1.Task) int {
		return slices.Index(order, a.State) - slices.Index(order, b.State)
	})
	p.line("TASK      SINCE  NAME", "")
	for _, each := range sorted[:min(len(sorted), maxTasks)] {
		of := map[operatorv1alpha1.TaskState]colour{operatorv1alpha1.TaskFailed: red, operatorv1alpha1.TaskRunning: yellow}[each.State]
		p.wrapped(fmt.Sprintf("%-9s %-6s ", each.State, p.age(each.Since)), 17, each.Name, of)
		if each.State != operatorv1alpha1.TaskPending {
			p.wrapped("", 17, each.WaitingFor, "")
		}
	}
	if more := len(sorted) - maxTasks; more > 0 {
		p.line(fmt.Sprintf("                 and %d more", more), "")
	}
}

func (p *printer) conditions(all []Condition) {
	if len(all) == 0 {
		return
	}
	p.line("STATUS    SINCE  CONDITION", "")
	for _, each := range all {
		of := yellow
		switch corev1beta1.ConditionStatus(each.Status) {
		case corev1beta1.ConditionTrue:
			of = green
		case corev1beta1.ConditionFalse:
			of = red
		default:
		}
		p.wrapped(fmt.Sprintf("%-9s %-6s ", each.Status, p.age(each.Since)), 17, each.Type, of)
		if each.Status != string(corev1beta1.ConditionTrue) {
			p.wrapped("", 17, strings.TrimPrefix(each.Reason+": "+each.Message, ": "), "")
		}
	}
}

// age returns how long ago a time was.
func (p *printer) age(t metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(p.now.Sub(t.Time))
}

// fact prints a line "name: value" of an indented list, wrapped. It prints nothing without a value.
func (p *printer) fact(name, value string, of colour) {
	if value != "" {
		p.wrapped(fmt.Sprintf("  %-16s ", name+":"), 19, value, of)
	}
}

// wrapped prints a text after a prefix; the following lines are indented.
func (p *printer) wrapped(prefix string, indent int, value string, of colour) {
	line := prefix
	if prefix == "" {
		line = strings.Repeat(" ", indent)
	}
	empty := true
	for word := range strings.FieldsSeq(excerpt.Of(plainText(value), maxText)) {
		for !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			p.line(line, of)
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += " "
		}
		for room := width - utf8.RuneCountInString(line); utf8.RuneCountInString(word) > room; room = width - indent {
			runes := []rune(word)
			p.line(line+string(runes[:room]), of)
			line, word = strings.Repeat(" ", indent), string(runes[room:])
		}
		line, empty = line+word, false
	}
	if !empty {
		p.line(line, of)
	}
}

// line prints a line in a colour.
func (p *printer) line(text string, of colour) {
	text = strings.TrimRight(text, " ")
	if p.colours && of != "" {
		text = "\x1b[" + string(of) + "m" + text + "\x1b[0m"
	}
	fmt.Fprintln(p, text)
}

// plainText replaces control characters in the texts of others: they could change the screen of a terminal.
func plainText(s string) string { return excerpt.Printable(s) }
