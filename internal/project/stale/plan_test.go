package stale

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/config"
	"github.com/espalier-dev/espalier/internal/project/usage"
)

const day = 24 * time.Hour

// createdAt is when the project of all cases was created; ages are relative to it.
func createdAt() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

func at(age time.Duration) time.Time       { return createdAt().Add(age) }
func stamp(age time.Duration) *metav1.Time { return &metav1.Time{Time: at(age)} }

// aged is an unused project of the given age.
func aged(age time.Duration, change ...func(*facts)) facts {
	f := facts{now: at(age), created: createdAt()}
	for _, each := range change {
		each(&f)
	}
	return f
}

func marked(since time.Duration) func(*facts) { return func(f *facts) { f.staleSince = stamp(since) } }

func dated(date time.Duration) func(*facts) { return func(f *facts) { f.autoDelete = stamp(date) } }

func active(age time.Duration) func(*facts)   { return func(f *facts) { f.lastActivity = stamp(age) } }
func used(v usage.Verdict) func(*facts)       { return func(f *facts) { f.use = v } }
func exempted(f *facts)                       { f.skip = true }
func lasting(f *facts)                        { f.lasting = true }
func announced(at time.Duration) func(*facts) { return func(f *facts) { f.announced = stamp(at) } }

// rules are the defaults, without a forecast.
func rules(change ...func(*Rules)) Rules {
	r := Rules{
		MinimumLifetime: 30 * day, GracePeriod: 14 * day, Expiration: 90 * day, SyncPeriod: 12 * time.Hour,
		Deletion: config.StaleDeletionDelete,
	}
	for _, each := range change {
		each(&r)
	}
	return r
}

func forecasting(r *Rules) { r.Forecast, r.Notice = 7*day, 7*day }

func TestJudge(t *testing.T) {
	const sync = 12 * time.Hour
	for name, tc := range map[string]struct {
		rules Rules
		facts facts
		want  plan
	}{
		"exempted, whatever else": {rules(), aged(200*day, marked(30*day), exempted), plan{row: "exempted", next: sync}},
		"a second too young":      {rules(), aged(30*day-time.Second, marked(day)), plan{row: "young", next: time.Second}},
		"exactly old enough":      {rules(), aged(30 * day), plan{row: "unused", staleSince: stamp(30 * day), next: sync}},
		"active a second too recently": {
			rules(), aged(40*day-time.Second, active(10*day), marked(35*day)), plan{row: "active", next: time.Second},
		},
		"active just long ago": {
			rules(), aged(40*day, active(10*day)), plan{row: "unused", staleSince: stamp(40 * day), next: sync},
		},
		"used": {
			rules(), aged(40*day, marked(35*day), used(usage.Verdict{By: "Shoot"})), plan{row: "used by Shoot", next: sync},
		},
		"it is unknown whether it is used": {
			rules(), aged(200*day, marked(30*day), dated(120*day), used(usage.Verdict{Undecided: true})),
			plan{row: "undecided", undecided: true, next: sync},
		},
		"young, and it is unknown whether it is used": {
			rules(), aged(day, marked(day), used(usage.Verdict{Undecided: true})), plan{row: "young", next: sync},
		},
		"marked in parts of a second": {
			rules(), aged(40*day + time.Millisecond), plan{row: "unused", staleSince: stamp(40 * day), next: sync},
		},
		"a second left of the grace": {
			rules(), aged(44*day-time.Second, marked(30*day)), plan{row: "unused", staleSince: stamp(30 * day), next: time.Second},
		},
		"grace exactly over": {
			rules(), aged(44*day, marked(30*day)), plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), next: sync},
		},
		"a longer grace unsets the date": {
			rules(func(r *Rules) { r.GracePeriod = 16 * day }), aged(45*day, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), next: sync},
		},
		"a later date wins": {
			rules(func(r *Rules) { r.Expiration = 100 * day }), aged(45*day, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(130 * day), next: sync},
		},
		"an earlier date does not": {
			rules(func(r *Rules) { r.Expiration = 20 * day }), aged(45*day, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), next: sync},
		},
		"a second before the date": {
			rules(), aged(120*day-time.Second, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), next: time.Second},
		},
		"the date has come": {
			rules(), aged(120*day, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), due: true, next: sync},
		},
		"no periods at all": {
			Rules{SyncPeriod: sync, Deletion: config.StaleDeletionDelete},
			aged(0),
			plan{row: "unused", staleSince: stamp(0), autoDelete: stamp(0), due: true, next: sync},
		},
		"expired before the grace is over": {
			rules(func(r *Rules) { r.Expiration = day }), aged(44*day, marked(30*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(31 * day), due: true, next: sync},
		},
		"deletion is off": {
			rules(func(r *Rules) { r.Deletion = config.StaleDeletionOff }, forecasting), aged(120*day, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), next: sync},
		},
		"no Shoots are served": {
			rules(forecasting), aged(120*day, marked(30*day), dated(120*day), used(usage.Verdict{WithoutShoots: true})),
			plan{row: "unused", staleSince: stamp(30 * day), next: sync},
		},
		"no Shoots, and that is fine": {
			rules(func(r *Rules) { r.WithoutShoots = true }),
			aged(120*day, marked(30*day), dated(120*day), used(usage.Verdict{WithoutShoots: true})),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), due: true, next: sync},
		},
		"a rehearsal": {
			rules(func(r *Rules) { r.Deletion = config.StaleDeletionDryRun }), aged(120*day, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), due: true, next: sync},
		},
		"long before anything happens":        {rules(forecasting), aged(20 * day), plan{row: "young", next: sync}},
		"shortly before it is to be reported": {rules(forecasting), aged(23*day - time.Hour), plan{row: "young", next: time.Hour}},
		"soon stale": {
			rules(forecasting), aged(23 * day), plan{row: "young", events: []plannedEvent{{ReasonStaleForecast, at(30 * day)}}, next: sync},
		},
		"soon stale, but used": {
			rules(forecasting), aged(23*day, used(usage.Verdict{By: "Plant"})), plan{row: "young", next: sync},
		},
		"soon stale after activity": {
			rules(forecasting), aged(35*day, active(10*day)),
			plan{row: "active", events: []plannedEvent{{ReasonStaleForecast, at(40 * day)}}, next: sync},
		},
		"soon deleted": {
			rules(forecasting), aged(113*day, marked(30*day), dated(120*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(120 * day),
				events: []plannedEvent{{ReasonDeletionForecast, at(120 * day)}}, next: sync,
			},
		},
		"soon deleted, in a rehearsal": {
			rules(forecasting, func(r *Rules) { r.Deletion = config.StaleDeletionDryRun }), aged(113*day, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), next: sync},
		},
		"hours before it is reported again": {
			rules(forecasting), aged(114*day-2*time.Hour, marked(30*day), dated(120*day), announced(120*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(120 * day),
				events: []plannedEvent{{ReasonDeletionForecast, at(120 * day)}}, next: 2 * time.Hour,
			},
		},
		"an hour before it can be stale": {
			rules(forecasting), aged(30*day - time.Hour),
			plan{row: "young", events: []plannedEvent{{ReasonStaleForecast, at(30 * day)}}, next: time.Hour},
		},
		"an hour before a rehearsal": {
			rules(func(r *Rules) { r.Deletion = config.StaleDeletionDryRun }), aged(120*day-time.Hour, marked(30*day), dated(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), next: time.Hour},
		},
		"the date has come, announced": {
			rules(forecasting), aged(120*day, marked(30*day), dated(120*day), announced(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(120 * day), due: true, next: sync},
		},
		"the date has come, not announced, while the process ran": {
			rules(forecasting), aged(120*day+time.Hour, marked(30*day), dated(120*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), due: true, next: sync,
			},
		},
		"a date that has passed unannounced": {rules(forecasting), aged(121*day+time.Millisecond, marked(30*day), dated(120*day)), plan{
			row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(128 * day),
			events: []plannedEvent{{ReasonDeletionForecast, at(128 * day)}}, next: sync,
		}},
		"no date yet, and it would have passed": {rules(forecasting), aged(200*day, marked(30*day)), plan{
			row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(207 * day),
			events: []plannedEvent{{ReasonDeletionForecast, at(207 * day)}}, next: sync,
		}},
		"a second before an announced deletion, long after its date": {
			rules(forecasting), aged(207*day-time.Second, marked(30*day), dated(120*day), announced(207*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(207 * day),
				events: []plannedEvent{{ReasonDeletionForecast, at(207 * day)}}, next: time.Second,
			},
		},
		"an announced deletion, long after its date": {
			rules(forecasting), aged(207*day, marked(30*day), dated(120*day), announced(207*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(207 * day), due: true, next: sync,
			},
		},
		"another client's announcement for the next century": {
			rules(forecasting), aged(120*day, marked(30*day), dated(120*day), announced(40000*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), announced: stamp(127 * day),
				events: []plannedEvent{{ReasonDeletionForecast, at(127 * day)}}, next: sync,
			},
		},
		"announced, and the date moves": {
			rules(forecasting, func(r *Rules) { r.Expiration = 100 * day }), aged(119*day, marked(30*day), dated(120*day), announced(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(130 * day), next: sync},
		},
		"announced, and rehearsed now": {
			rules(forecasting, func(r *Rules) { r.Deletion = config.StaleDeletionDryRun }),
			aged(119*day, marked(30*day), dated(120*day), announced(120*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), next: sync},
		},
		"announced, and used": {
			rules(forecasting), aged(119*day, marked(30*day), dated(120*day), announced(120*day), used(usage.Verdict{By: "Shoot"})),
			plan{row: "used by Shoot", next: sync},
		},
		"announced, and no forecast any longer": {
			rules(), aged(120*day, marked(30*day), dated(120*day), announced(125*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(120 * day), due: true, next: sync},
		},
		"no periods at all, long unseen": {
			Rules{SyncPeriod: sync, Deletion: config.StaleDeletionDelete, Forecast: 7 * day},
			aged(1000*day, marked(30*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(30 * day), due: true, next: sync},
		},
		"shorter than the forecast, unseen": {
			Rules{SyncPeriod: sync, Deletion: config.StaleDeletionDelete, Forecast: 7 * day, Notice: 3 * day, GracePeriod: day, Expiration: 3 * day},
			aged(100*day, marked(30*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(33 * day), announced: stamp(103 * day),
				events: []plannedEvent{{ReasonDeletionForecast, at(103 * day)}}, next: sync,
			},
		},
		"expires within the grace, which is reported in time": {
			rules(forecasting, func(r *Rules) { r.Expiration = day }), aged(37*day, marked(30*day)),
			plan{
				row: "unused", staleSince: stamp(30 * day), announced: stamp(44 * day),
				events: []plannedEvent{{ReasonDeletionForecast, at(44 * day)}}, next: sync,
			},
		},
		"expires within the grace, which is over, announced": {
			rules(forecasting, func(r *Rules) { r.Expiration = day }), aged(44*day, marked(30*day), announced(44*day)),
			plan{row: "unused", staleSince: stamp(30 * day), autoDelete: stamp(31 * day), announced: stamp(44 * day), due: true, next: sync},
		},
		"the garden's own project": {
			rules(forecasting), aged(200*day, marked(30*day), dated(120*day), lasting),
			plan{row: "unused", staleSince: stamp(30 * day), next: sync},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.rules.judge(tc.facts)).To(Equal(tc.want)) })
	}
}

func TestUseIsDeterminedOnlyIfNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		rules Rules
		facts facts
		want  bool
	}{
		"young":                      {rules(), aged(29 * day), false},
		"old":                        {rules(), aged(30 * day), true},
		"exempted":                   {rules(), aged(30*day, exempted), false},
		"active":                     {rules(), aged(60*day, active(31*day)), false},
		"young, and to be reported":  {rules(forecasting), aged(23 * day), true},
		"too young to be reported":   {rules(forecasting), aged(23*day - time.Second), false},
		"active, and to be reported": {rules(forecasting), aged(60*day, active(37*day)), true},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(tc.rules.needsUse(tc.facts)).To(Equal(tc.want)) })
	}
}
