package load

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLost(t *testing.T) {
	for name, tc := range map[string]struct {
		unaccepted, lagging map[string]string
		want                []string
	}{
		"nothing":           {nil, nil, []string{}},
		"one has not come":  {nil, map[string]string{"Node a": "has revision 1 instead of 2"}, []string{"Node a has revision 1 instead of 2"}},
		"one was not taken": {map[string]string{"Node a": "revision 2 was not accepted"}, nil, []string{"Node a revision 2 was not accepted"}},
		"one is named once": {
			map[string]string{"Node a": "revision 2 was not accepted"},
			map[string]string{"Node a": "has revision 1 instead of 2"},
			[]string{"Node a revision 2 was not accepted"},
		},
		"two, in some order": {map[string]string{"Node b": "x"}, map[string]string{"Node a": "y"}, []string{"Node a y", "Node b x"}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(lost(tc.unaccepted, tc.lagging)).To(Equal(tc.want)) })
	}
}

func TestBroken(t *testing.T) {
	promise := Promise{Asked: 3, Answered: "one replica goes on"}
	for name, tc := range map[string]struct {
		promise Promise
		outcome Outcome
		want    []string
	}{
		"all is well":      {promise, Outcome{Figures: Figures{Asked: 3}}, nil},
		"updates are lost": {Promise{}, Outcome{Lost: []string{"a", "b"}}, []string{"every change arrives, but: a, b"}},
		"an object is deleted": {
			Promise{},
			Outcome{Deleted: []string{"a"}},
			[]string{"nothing is deleted that should be there, but: a"},
		},
		"webhooks are not asked": {
			Promise{},
			Outcome{Figures: Figures{Asked: 1, Unchanged: 1}},
			[]string{"no Pod is accepted without the webhooks, but 1 were"},
		},
		"webhooks do not answer": {
			promise,
			Outcome{Figures: Figures{Asked: 3, Unanswered: 2}},
			[]string{"one replica goes on, but 2 Pods were not accepted"},
		},
		"webhooks need not answer": {Promise{}, Outcome{Figures: Figures{Asked: 3, Unanswered: 2}}, nil},
		"too few Pods for a conclusion": {
			promise,
			Outcome{Figures: Figures{Asked: 2}},
			[]string{"3 Pods or more are shown to the webhooks, but 2 were"},
		},
		"it does not recover": {Promise{}, Outcome{Unsynced: errors.New("a")}, []string{"everything recovers, but: a"}},
		"an unknown outcome":  {Promise{}, Outcome{Unknown: errors.New("a")}, []string{"everything can be looked at, but: a"}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.outcome.Broken(tc.promise)).To(Equal(tc.want)) })
	}
}

func TestResult(t *testing.T) {
	for name, tc := range map[string]struct {
		broken []string
		want   string
	}{
		"nothing": {nil, "passed"},
		"two":     {[]string{"a", "b"}, "**failed**: a; b"},
		"lines":   {[]string{"a |\n b"}, "**failed**: a / b"},
		"a novel": {[]string{strings.Repeat("ä", 300)}, "**failed**: " + strings.Repeat("ä", 144) + " …"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Result(tc.broken)).To(Equal(tc.want)) })
	}
}
