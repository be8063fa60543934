package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLinesAreNumbered(t *testing.T) {
	g, out := NewWithT(t), &bytes.Buffer{}
	g.Expect(run([]string{"pear", "3"}, out)).To(Succeed())
	g.Expect(out.String()).To(Equal("pear 1\npear 2\npear 3\n"))
	out.Reset()
	g.Expect(run([]string{"pear", "101", "1ns"}, out)).To(Succeed())
	g.Expect(out.String()).To(HaveSuffix("pear 100\npear 101\n"))
	g.Expect(run([]string{"pear"}, out)).To(MatchError("usage: lines TEXT NUMBER [DURATION]"))
	g.Expect(run([]string{"pear", "1", "soon"}, out)).To(MatchError(HavePrefix("read pause: ")))
}
