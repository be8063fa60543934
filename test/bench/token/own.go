package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/test/bench/gauge"
)

// entry is a line of the audit log.
type entry struct {
	Verb       string    `json:"verb"`
	RequestURI string    `json:"requestURI"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	Done       time.Time `json:"stageTimestamp"`
	Object     struct {
		Resource string `json:"resource"`
	} `json:"objectRef"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// counts reports whether it is a request of the controller about a ServiceAccount or its token, or a write of a Secret.
func (e entry) counts() bool {
	own := strings.Contains(e.User.Username, ":"+ownSpace+":")
	return own && (e.Object.Resource == "serviceaccounts" || e.Object.Resource == "secrets" && e.Verb == "patch")
}

// result is the result of the controller.
type result struct {
	took     time.Duration
	requests int
}

// issue starts the controller and waits until it has written that many tokens.
func (b *bench) issue(ctx context.Context, n int) (result, error) {
	if err := b.startController(ctx); err != nil {
		return result{}, err
	}
	var begin, end time.Time
	var r result
	written := 0
	log := &gauge.AuditLog[entry]{File: b.plane.AuditLog()}
	err := gauge.Await(ctx, patience, "all tokens to be written", func() (bool, error) {
		if err := b.process.Failure(); err != nil {
			return false, err
		}
		entries, err := log.Next()
		for _, each := range entries {
			if !each.counts() {
				continue
			}
			r.requests++
			if begin.IsZero() || each.Received.Before(begin) {
				begin = each.Received
			}
			if each.Verb == "patch" && each.Status.Code == 200 {
				written++
				end = each.Done
			}
		}
		return written >= n, err
	})
	r.took = end.Sub(begin)
	return r, err
}

// rest counts the requests of the controller while nothing happens, and then measures its resident memory in MiB.
func (b *bench) rest(ctx context.Context, d time.Duration) (requests int, memory float64, err error) {
	log := &gauge.AuditLog[entry]{File: b.plane.AuditLog()}
	err = gauge.Pause(ctx, 2*time.Second)
	if err != nil { // the last events arrive in this time
		return 0, 0, err
	}
	if _, err = log.Next(); err != nil {
		return 0, 0, err
	}
	err = gauge.Pause(ctx, d)
	if err != nil {
		return 0, 0, err
	}
	entries, err := log.Next()
	for _, each := range entries {
		if each.Verb != "watch" { // a watch is renewed every few minutes
			fmt.Printf("at rest: %s %s\n", each.Verb, each.RequestURI)
			requests++
		}
	}
	if err != nil {
		return 0, 0, err
	}
	memory, _, err = gauge.Memory(b.process.ID)
	return requests, memory, err
}
