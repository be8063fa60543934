package managedresources_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/api/managedresources"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
)

// sequence is a client that answers every read with the next of its states, and ends the context after the last one.
type sequence struct {
	states [][]resourcesv1alpha1.ManagedResource
	err    error // returned instead of a state if not nil
	looks  int
	stop   context.CancelFunc
}

func (s *sequence) next() ([]resourcesv1alpha1.ManagedResource, error) {
	s.looks++
	if s.err != nil {
		return nil, s.err
	}
	state := s.states[0]
	if s.states = s.states[1:]; len(s.states) == 0 {
		s.stop()
	}
	return state, nil
}

func (s *sequence) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	state, err := s.next()
	if err != nil {
		return err
	}
	into, ok := obj.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return fmt.Errorf("unexpected type %T", obj)
	}
	for i := range state {
		if client.ObjectKeyFromObject(&state[i]) == key {
			state[i].DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: "resources.gardener.cloud", Resource: "managedresources"}, key.Name)
}

func (s *sequence) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	into, ok := list.(*resourcesv1alpha1.ManagedResourceList)
	if !ok {
		return fmt.Errorf("unexpected type %T", list)
	}
	var err error
	into.Items, err = s.next()
	return err
}

func states(mrs ...*resourcesv1alpha1.ManagedResource) [][]resourcesv1alpha1.ManagedResource {
	var list [][]resourcesv1alpha1.ManagedResource
	for _, mr := range mrs {
		if mr == nil {
			list = append(list, nil)
			continue
		}
		list = append(list, []resourcesv1alpha1.ManagedResource{*mr})
	}
	return list
}

type waitFunc func(context.Context, managedresources.Waiter) error

func untilHealthy(ctx context.Context, w managedresources.Waiter) error {
	return w.UntilHealthy(ctx, "ns", "mr")
}

func untilNotProgressing(ctx context.Context, w managedresources.Waiter) error {
	return w.UntilHealthyAndNotProgressing(ctx, "ns", "mr")
}

func untilDeleted(ctx context.Context, w managedresources.Waiter) error {
	return w.UntilDeleted(ctx, "ns", "mr")
}

func untilListDeleted(ctx context.Context, w managedresources.Waiter) error {
	return w.UntilListDeleted(ctx, client.InNamespace("ns"))
}

func applied(reason, message string) *resourcesv1alpha1.ManagedResource {
	mr := managedResourceNamed("mr")
	mr.Status.Conditions = []corev1beta1.Condition{{Type: "ResourcesApplied", Status: "Progressing", Reason: reason, Message: message}}
	return mr
}

func TestWaiter(t *testing.T) {
	unhealthy := fine(with("ResourcesHealthy", "False", "Pod is down."))
	progressing := fine(with("ResourcesProgressing", "True", "Rolling."))
	second := applied("DeletionFailed", "Also stuck.")
	second.Name = "mr2"

	for name, tc := range map[string]struct {
		wait   waitFunc
		states [][]resourcesv1alpha1.ManagedResource
		looks  int
		want   string // "" means success
		codes  []corev1beta1.ErrorCode
	}{
		"healthy at once": {wait: untilHealthy, states: states(fine(), nil), looks: 1},
		"healthy after a while": {
			wait: untilHealthy, states: states(unhealthy, fine(outdated), fine(), nil), looks: 3,
		},
		"healthy and still progressing is healthy": {wait: untilHealthy, states: states(progressing, nil), looks: 1},
		"never healthy": {
			wait: untilHealthy, states: states(unhealthy), looks: 1,
			want: "context canceled: managed resource ns/mr is not healthy: condition ResourcesHealthy of managed resource ns/mr is False: " +
				"Pod is down.",
		},
		"healthy, but not applied": {
			wait: untilHealthy, states: states(fine(outdated)), looks: 1,
			want: "context canceled: managed resource ns/mr is not healthy: observed generation of managed resource ns/mr outdated (6/7)",
		},
		"an invalid object keeps it from being healthy": {
			wait: untilHealthy, states: states(fine(with("ResourcesApplied", "False", `error during apply of object "v1/Pod/ns/p" is invalid: x`))),
			looks: 1,
			want: "context canceled: managed resource ns/mr is not healthy: condition ResourcesApplied of managed resource ns/mr is False: " +
				`error during apply of object "v1/Pod/ns/p" is invalid: x`,
			codes: []corev1beta1.ErrorCode{"ERR_CONFIGURATION_PROBLEM"},
		},
		"a missing ManagedResource never gets healthy": {
			wait: untilHealthy, states: states(nil, fine()), looks: 1,
			want: `get managed resource ns/mr: managedresources.resources.gardener.cloud "mr" not found`,
		},

		"rolled out after a while": {wait: untilNotProgressing, states: states(unhealthy, progressing, fine(), nil), looks: 3},
		"never rolled out": {
			wait: untilNotProgressing, states: states(unhealthy, progressing), looks: 2,
			want: "context canceled: managed resource ns/mr is still progressing: condition ResourcesProgressing of managed resource ns/mr is " +
				"True: Rolling.",
		},
		"rolled out, but never healthy": {
			wait: untilNotProgressing, states: states(unhealthy), looks: 1,
			want: "context canceled: managed resource ns/mr is not healthy: condition ResourcesHealthy of managed resource ns/mr is False: " +
				"Pod is down.",
		},

		"gone after a while": {wait: untilDeleted, states: states(fine(), nil, nil), looks: 2},
		"never gone, without a word why": {
			wait: untilDeleted, states: states(fine()), looks: 1,
			want: "context canceled: managed resource ns/mr still exists",
		},
		"never gone, as its deletion is pending": {
			wait: untilDeleted, states: states(applied("DeletionPending", "Stuck.")), looks: 1,
			want: "context canceled: managed resource ns/mr still exists: Stuck.",
		},
		"never gone, as its deletion fails": {
			wait: untilDeleted, states: states(applied("DeletionFailed", "Stuck.")), looks: 1,
			want: "context canceled: managed resource ns/mr still exists: Stuck.",
		},
		"never gone, with a condition about something else": {
			wait: untilDeleted, states: states(applied("ApplyFailed", "Broken.")), looks: 1,
			want: "context canceled: managed resource ns/mr still exists",
		},
		"never gone, for what the user has configured": {
			wait: untilDeleted, states: states(applied("DeletionPending", `ERROR during apply of object "v1/Pod/ns/p": Pod "p" is invalid: x`)),
			looks: 1,
			want:  `context canceled: managed resource ns/mr still exists: ERROR during apply of object "v1/Pod/ns/p": Pod "p" is invalid: x`,
			codes: []corev1beta1.ErrorCode{"ERR_CONFIGURATION_PROBLEM"},
		},

		"all gone after a while": {
			wait: untilListDeleted, states: [][]resourcesv1alpha1.ManagedResource{{*fine(), *second}, {*second}, {}, {}}, looks: 3,
		},
		"some never gone": {
			wait: untilListDeleted, states: [][]resourcesv1alpha1.ManagedResource{{*applied("DeletionPending", "Stuck."), *second, *fine()}},
			looks: 1,
			want: "context canceled: managed resource ns/mr still exists: Stuck.; managed resource ns/mr2 still exists: Also stuck.; " +
				"managed resource ns/mr still exists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reader := &sequence{states: tc.states, stop: cancel}
			err := tc.wait(ctx, managedresources.Waiter{Client: reader, Interval: time.Millisecond})
			g.Expect(reader.looks).To(Equal(tc.looks))
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(managedresources.ErrorCodes(err)).To(Equal(tc.codes))
		})
	}
}

func TestWaiterEndsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		wait waitFunc
		want string
	}{
		"until healthy":         {wait: untilHealthy, want: "get managed resource ns/mr: broken"},
		"until not progressing": {wait: untilNotProgressing, want: "get managed resource ns/mr: broken"},
		"until deleted":         {wait: untilDeleted, want: "get managed resource ns/mr: broken"},
		"until list deleted":    {wait: untilListDeleted, want: "list managed resources: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			reader := &sequence{err: broken}
			err := tc.wait(t.Context(), managedresources.Waiter{Client: reader, Interval: time.Millisecond})
			g.Expect(err).To(MatchError(tc.want))
			g.Expect(errors.Is(err, broken)).To(BeTrue())
			g.Expect(reader.looks).To(Equal(1))
		})
	}
}

// A request that is not complete when the context ends fails. The error must still contain the last known state.
func TestWaiterTellsTheLastStateWhenARequestIsCutOff(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader := &cutOff{sequence: sequence{states: states(fine(outdated), nil), stop: func() {}}, cancel: cancel}
	err := managedresources.Waiter{Client: reader, Interval: time.Millisecond}.UntilHealthy(ctx, "ns", "mr")
	g.Expect(err).To(MatchError("context canceled: managed resource ns/mr is not healthy: observed generation of managed resource ns/mr " +
		"outdated (6/7)"))
	g.Expect(errors.Is(err, context.Canceled)).To(BeTrue())
}

type cutOff struct {
	sequence
	cancel context.CancelFunc
}

func (c *cutOff) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.looks == 1 {
		c.cancel()
		return ctx.Err()
	}
	return c.sequence.Get(ctx, key, obj, opts...)
}

func TestWaitFunctions(t *testing.T) {
	for name, wait := range map[string]func(context.Context, client.Reader) error{
		"WaitUntilHealthy": func(ctx context.Context, r client.Reader) error {
			return managedresources.WaitUntilHealthy(ctx, r, "ns", "fine")
		},
		"WaitUntilHealthyAndNotProgressing": func(ctx context.Context, r client.Reader) error {
			return managedresources.WaitUntilHealthyAndNotProgressing(ctx, r, "ns", "fine")
		},
		"WaitUntilDeleted": func(ctx context.Context, r client.Reader) error {
			return managedresources.WaitUntilDeleted(ctx, r, "ns", "gone")
		},
		"WaitUntilListDeleted": func(ctx context.Context, r client.Reader) error {
			return managedresources.WaitUntilListDeleted(ctx, r, client.InNamespace("empty"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mr := fine()
			mr.Name = "fine"
			NewWithT(t).Expect(wait(t.Context(), newCluster(t, mr))).To(Succeed())
		})
	}
	NewWithT(t).Expect(managedresources.DefaultPollInterval).To(Equal(2 * time.Second))
}
