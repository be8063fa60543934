package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// readAudit calls visit for each line. It skips text after the last line end, which is not complete yet.
func readAudit(from io.Reader, visit func(event)) error {
	reader := bufio.NewReaderSize(from, 1<<20)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		if !bytes.Contains(line, []byte(`"system:serviceaccount:`)) {
			continue // of another user, like most events of a log
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read audit log, line %d: %w", number, err)
		}
		visit(e)
	}
}

func readAuditFile(file string, visit func(event)) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := readAudit(f, visit); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
