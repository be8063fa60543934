// Command lines writes numbered lines to its standard output, and ends. Tests find them where logs are stored.
//
//	lines TEXT NUMBER
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: lines TEXT NUMBER")
	}
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("read number of lines: %w", err)
	}
	buffer := bufio.NewWriter(out)
	for i := range number {
		if _, err := fmt.Fprintf(buffer, "%s %d\n", args[0], i+1); err != nil {
			return err
		}
	}
	return buffer.Flush()
}
