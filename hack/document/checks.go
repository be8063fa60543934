package main

import "github.com/espalier-dev/espalier/internal/csr/rules"

// checks returns the table of the checks of csr-approver, by the values of the label reason of its metrics.
func (*writer) checks([]string) (string, error) {
	all := rules.AllReasons()
	rows := make([][]string, 0, len(all))
	for _, reason := range all {
		rows = append(rows, []string{code(reason.String()), reason.Meaning()})
	}
	return table([]string{"`reason`", "meaning"}, rows), nil
}
