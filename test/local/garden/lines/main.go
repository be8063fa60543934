// Command lines writes numbered lines to its standard output, and ends. Tests find them where logs are stored. After every hundred lines it
// pauses, if there is a duration.
//
//	lines TEXT NUMBER [DURATION]
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// block is the number of lines between two pauses.
const block = 100

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: lines TEXT NUMBER [DURATION]")
	}
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("read number of lines: %w", err)
	}
	var pause time.Duration
	if len(args) == 3 {
		pause, err = time.ParseDuration(args[2])
		if err != nil {
			return fmt.Errorf("read pause: %w", err)
		}
	}
	buffer := bufio.NewWriter(out)
	for i := 1; i <= number; i++ {
		if _, err := fmt.Fprintf(buffer, "%s %d\n", args[0], i); err != nil {
			return err
		}
		if i%block == 0 {
			if err := buffer.Flush(); err != nil {
				return err
			}
			time.Sleep(pause)
		}
	}
	return buffer.Flush()
}
