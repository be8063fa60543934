package main

import "github.com/espalier-dev/espalier/internal/csr/rules"

// checks returns the table of the checks of csr-approver, by the values of the label reason of its metrics.
func (*writer) checks([]string) (string, error) {
	var rows [][]string
	for _, reason := range rules.AllReasons() {
		rows = append(rows, []string{code(reason.String()), reason.Meaning()})
	}
	return table([]string{"`reason`", "meaning"}, rows), nil
}
