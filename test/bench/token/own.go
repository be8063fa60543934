package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
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

// counts tells whether it is a request of the controller about a ServiceAccount or its token, or a write of a Secret.
func (e entry) counts() bool {
	own := strings.Contains(e.User.Username, ":"+ownSpace+":")
	return own && (e.Object.Resource == "serviceaccounts" || e.Object.Resource == "secrets" && e.Verb == "patch")
}

// result is what the controller needed.
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
	log := &follower{file: b.plane.AuditLog()}
	err := await(ctx, "all tokens to be written", func() (bool, error) {
		if err := b.process.Failure(); err != nil {
			return false, err
		}
		entries, err := log.next()
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

// rest counts the requests of the controller while nothing happens, and tells its resident memory in MiB after that.
func (b *bench) rest(ctx context.Context, d time.Duration) (requests int, memory float64, err error) {
	log := &follower{file: b.plane.AuditLog()}
	err = pause(ctx, 2*time.Second)
	if err != nil { // the last events arrive
		return 0, 0, err
	}
	if _, err = log.next(); err != nil {
		return 0, 0, err
	}
	err = pause(ctx, d)
	if err != nil {
		return 0, 0, err
	}
	entries, err := log.next()
	for _, each := range entries {
		if each.Verb != "watch" { // a watch is renewed every some minutes
			fmt.Printf("at rest: %s %s\n", each.Verb, each.RequestURI)
			requests++
		}
	}
	if err != nil {
		return 0, 0, err
	}
	memory, err = resident(b.process.ID)
	return requests, memory, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// follower reads the audit log as it grows.
type follower struct {
	file   string
	offset int64
}

func (f *follower) next() ([]entry, error) {
	file, err := os.Open(f.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err = file.Seek(f.offset, io.SeekStart); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the last line may be half written
	f.offset += int64(len(content))
	var entries []entry
	for line := range bytes.Lines(content) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("decode audit log: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// resident returns the resident memory of a process in MiB.
func resident(pid int) (float64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no resident memory", pid)
}
