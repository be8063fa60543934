package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// identity identifies a process on this machine: a later process can have the same pid, but not the same time of birth.
type identity struct {
	pid  int
	born uint64
}

// record contains the observations of one process.
type record struct {
	kind string
	// tested is the package of the test that has started the process, directly or indirectly. It stays the same when the test ends before
	// the process.
	tested string
	used   time.Duration
	// seen is the number of readings in which the process was running.
	seen int
}

// history contains the observations of all descendants of a process.
type history struct {
	records map[identity]*record
	// present is the number of readings in which at least one process of a kind was running, by kind.
	present map[string]int
	module  string
	names   []string
}

// add adds one reading of all processes of the machine. Only the descendants of root count.
func (h *history) add(all []process, root int) {
	byPID := make(map[int]process, len(all))
	for _, p := range all {
		byPID[p.pid] = p
	}
	now := map[string]bool{}
	for _, p := range all {
		ancestors, below := ancestorsOf(p, byPID, root)
		if !below {
			continue
		}
		r := h.records[identity{p.pid, p.born}]
		if r == nil {
			r = &record{}
			h.records[identity{p.pid, p.born}] = r
		}
		r.used = p.used
		r.seen++
		// A new process is a copy of its parent, and a process that has ended has no command line. So the kind is determined in every
		// reading.
		if len(p.command) > 0 {
			r.kind = kindOf(p.command, h.names)
			r.tested = testedBy(append([]process{p}, ancestors...), h.module, r.tested)
		}
		now[r.kind] = true
	}
	for kind := range now {
		h.present[kind]++
	}
}

// newHistory returns an empty history. The folder of the module comes from the go command; the names of the binaries are the names of the
// folders in cmd/.
func newHistory(ctx context.Context) (*history, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("find folder of module: %w", err)
	}
	h := &history{records: map[identity]*record{}, present: map[string]int{}, module: strings.TrimSpace(string(out))}
	folders, err := filepath.Glob(filepath.Join(h.module, "cmd", "*"))
	for _, each := range folders {
		h.names = append(h.names, filepath.Base(each))
	}
	return h, err
}

// testedBy returns the package of the first test among these processes; without a test, the package of an earlier reading.
func testedBy(processes []process, module, earlier string) string {
	for _, each := range processes {
		if len(each.command) > 0 && kindOf(each.command, nil) == testCode {
			return packageOf(testCode, each, module)
		}
	}
	return earlier
}

// ancestorsOf returns the processes between a process and root, the parent first. It returns false if root is not an ancestor.
func ancestorsOf(p process, all map[int]process, root int) ([]process, bool) {
	var found []process
	for p.parent != root {
		parent, ok := all[p.parent]
		if !ok || len(found) > len(all) {
			return nil, false
		}
		found = append(found, parent)
		p = parent
	}
	return found, true
}

// report prints the table of kinds and the table of packages. The argument total is the processor time of all processes, wall the duration
// of the run, and idle the time in which processor cores had no work.
func (h *history) report(out io.Writer, total, wall, idle time.Duration) {
	used := map[string]time.Duration{}
	var sum time.Duration
	for _, r := range h.records {
		used[r.kind] += r.used
		sum += r.used
	}
	table := newTable(out)
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()) }
	_, _ = fmt.Fprintln(table, "\nprocessor s\twhile present s\t  kind of process")
	for _, kind := range slices.SortedFunc(maps.Keys(used), func(a, b string) int { return cmp.Compare(used[b], used[a]) }) {
		_, _ = fmt.Fprintf(table, "%s\t%s\t  %s\n", seconds(used[kind]), seconds(time.Duration(h.present[kind])*interval), kind)
	}
	_, _ = fmt.Fprintf(table, "%s\t\t  after the last reading of a process\n", seconds(max(0, total-sum)))
	_, _ = fmt.Fprintf(table, "%s\t%s\t  sum\n", seconds(total), seconds(wall))
	_, _ = fmt.Fprintf(table, "%s\t\t  idle cores\n", seconds(idle))
	_ = table.Flush()
	h.reportPackages(out)
}

// reportPackages prints a row for each tested package, the most expensive first.
func (h *history) reportPackages(out io.Writer) {
	type row struct {
		test, servers, others time.Duration
		seen                  int
	}
	rows := map[string]*row{}
	for _, r := range h.records {
		p := rows[r.tested]
		if p == nil {
			p = &row{}
			rows[r.tested] = p
		}
		switch r.kind {
		case testCode:
			p.test += r.used
			p.seen = max(p.seen, r.seen)
		case apiServers, etcds, managers:
			p.servers += r.used
		default:
			p.others += r.used
		}
	}
	delete(rows, "") // servers that all tests share, and the compiler, work for no single package
	sum := func(p *row) time.Duration { return p.test + p.servers + p.others }
	table := newTable(out)
	_, _ = fmt.Fprintln(table, "\nprocessor s\ttest code\town servers\tothers\twall s\t  package")
	for _, name := range slices.SortedFunc(maps.Keys(rows), func(a, b string) int { return cmp.Compare(sum(rows[b]), sum(rows[a])) }) {
		p := rows[name]
		_, _ = fmt.Fprintf(table, "%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t  %s\n", sum(p).Seconds(), p.test.Seconds(), p.servers.Seconds(),
			p.others.Seconds(), (time.Duration(p.seen) * interval).Seconds(), name)
	}
	_ = table.Flush()
}

// newTable returns a table whose columns are right-aligned. The last cell of a row is not part of a column.
func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}
