package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor times in /proc.
const tick = 10 * time.Millisecond

// process contains the facts that one reading shows of a process.
type process struct {
	pid, parent int
	// born is when the process started, in ticks since the start of the machine. It distinguishes processes with the same pid.
	born uint64
	used time.Duration
	// ended is true if the process has ended, and its parent has not reaped it yet.
	ended bool
	// command is the command line, which is empty if the process has ended. folder is the working folder.
	command []string
	folder  string
}

// machine is a reading of the whole machine.
type machine struct {
	// idle is the time in which processor cores had no work, added up for all cores.
	idle time.Duration
}

func readMachine() (machine, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machine{}, fmt.Errorf("read processor time of machine: %w", err)
	}
	return parseMachine(string(data))
}

func parseMachine(stat string) (machine, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[0] != "cpu" {
		return machine{}, fmt.Errorf("read processor time of machine: unexpected line %q", line)
	}
	idle, idleErr := strconv.ParseInt(fields[4], 10, 64)
	waiting, waitErr := strconv.ParseInt(fields[5], 10, 64)
	if idleErr != nil || waitErr != nil {
		return machine{}, fmt.Errorf("read processor time of machine: unexpected line %q", line)
	}
	return machine{idle: time.Duration(idle+waiting) * tick}, nil
}

// readProcesses returns the processes that it can read. It omits processes that end meanwhile.
func readProcesses(proc fs.FS) []process {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return nil
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := fs.ReadFile(proc, entry.Name()+"/stat")
		if err != nil {
			continue
		}
		p, ok := parseStat(pid, string(stat))
		if !ok {
			continue
		}
		if command, err := fs.ReadFile(proc, entry.Name()+"/cmdline"); err == nil && len(command) > 0 {
			for word := range bytes.SplitSeq(bytes.TrimRight(command, "\x00"), []byte{0}) {
				p.command = append(p.command, string(word))
			}
		}
		if folder, err := fs.ReadLink(proc, entry.Name()+"/cwd"); err == nil {
			p.folder = folder
		}
		found = append(found, p)
	}
	return found
}

// parseStat reads the line of /proc/<pid>/stat. The name of the program is in parentheses, and may contain any character.
func parseStat(pid int, stat string) (process, bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	// fields begins with the third field of the line.
	parent, err1 := strconv.Atoi(fields[1])
	user, err2 := strconv.ParseInt(fields[11], 10, 64)
	system, err3 := strconv.ParseInt(fields[12], 10, 64)
	born, err4 := strconv.ParseUint(fields[19], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return process{}, false
	}
	return process{pid: pid, parent: parent, born: born, used: time.Duration(user+system) * tick, ended: fields[0] == "Z"}, true
}
