package config

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		text string
		want []pair // nil: an error
	}{
		{"", []pair{}},
		{" \t\r", []pair{}},
		{"# A=1", []pair{}},
		{"A=1", []pair{{"A", "1", false}}},
		{"  A=1  B=2\r", []pair{{"A", "1", false}, {"B", "2", false}}},
		{"A=1 # B=2", []pair{{"A", "1", false}}},
		{"A=/x#y", []pair{{"A", "/x#y", false}}},
		{`A="x # y"# z`, []pair{{"A", "x # y", false}}},
		{`A="a \"b\" \\ \n"`, []pair{{"A", `a "b" \ \n`, false}}},
		{`A=a\b`, []pair{{"A", `a\b`, false}}},
		{`A=b=c`, []pair{{"A", "b=c", false}}},
		{"A=", []pair{{"A", "", false}}},
		{`A=""`, []pair{{"A", "", false}}},
		{"A.b-c_1=2", []pair{{"A.b-c_1", "2", false}}},
		{"A", nil},
		{"A = 1", nil},
		{"A =1", nil},
		{"A= 1", nil},
		{"export A=1", nil},
		{"=1", nil},
		{"A\"=1", nil},
		{`A="1`, nil},
		{`A="1\"`, nil},
		{`A="1"2`, nil},
		{`A=1"2"`, nil},
		{"A=\x00", nil},
	} {
		lines, err := parse("f", test.text)
		if test.want == nil {
			if err == nil || !strings.HasPrefix(err.Error(), "f:1: ") {
				t.Errorf("%q: %v, error %v", test.text, lines, err)
			}
			continue
		}
		got := []pair{}
		for _, l := range lines {
			got = append(got, l.pairs...)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: %v %v, want %v", test.text, got, err, test.want)
		}
	}
	lines, err := parse("f", "\nA=1 B=2\n\n# x\nC=3")
	if err != nil || len(lines) != 2 || lines[0].number != 2 || lines[1].number != 5 {
		t.Errorf("%v %v", lines, err)
	}
}

// What was parsed and is written again parses to the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "A=1", "A=1 B=2 # c\n\nC=\"x \\\" y\\\\\"\n", "CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16",
		"STORE=/dev/shm GROUP=NODE COUNT=1\r\n", "GROUPS=host1 POWER=psu1 SWITCH=0", `A=\ B=\\ C="\\"`, "A=# B=\"#\"", "A=\v", "A=$B${C}$$",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := parse("f", text)
		if err != nil {
			return
		}
		var again []string
		for _, l := range lines {
			again = append(again, format(l.pairs))
		}
		back, err := parse("f", strings.Join(again, "\n"))
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, again, err)
		}
		if len(back) != len(lines) {
			t.Fatalf("%d lines became %d", len(lines), len(back))
		}
		for i := range lines {
			if !slices.Equal(lines[i].pairs, back[i].pairs) {
				t.Fatalf("%v became %v", lines[i].pairs, back[i].pairs)
			}
			for _, p := range lines[i].pairs {
				// Errors are fine, panics are not.
				_, _ = expand(p.value, func(string) (string, error) { return "", nil })
			}
		}
		if s, err := ParseSettings("f", text); err == nil {
			if again, err := ParseSettings("f", s.Text()); err != nil || again.Text() != s.Text() {
				t.Fatalf("settings %q became %q: %v", s.Text(), again.Text(), err)
			}
		}
	})
}
