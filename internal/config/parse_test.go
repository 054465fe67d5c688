package config

import (
	"os"
	"path/filepath"
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
		{"  A=1\tB=2\r", []pair{{"A", "1", false}, {"B", "2", false}}},
		{"A \t=\t 1   B= 2 C =3", []pair{{"A", "1", false}, {"B", "2", false}, {"C", "3", false}}},
		{"scr_Flush=Often", []pair{{"SCR_FLUSH", "Often", false}}},
		{"GROUPS=h1 Power=a", []pair{{"GROUPS", "h1", false}, {"POWER", "a", false}}},
		{"A=1 # B=2", []pair{{"A", "1", false}}},
		{"A=1 #", []pair{{"A", "1", false}}},
		{"A=1#x", []pair{{"A", "1#x", false}}},
		{"A=/x#y", []pair{{"A", "/x#y", false}}},
		{"A= #", []pair{{"A", "#", false}}},
		{`A="b"`, []pair{{"A", `"b"`, false}}},
		{`A='b' B="`, []pair{{"A", "'b'", false}, {"B", `"`, false}}},
		{`A=b\ c B=\"`, []pair{{"A", "b c", false}, {"B", `"`, false}}},
		{`A=\a\b\f\n\r\t\v\\\#\x`, []pair{{"A", "\a\b\f\n\r\t\v\\#x", false}}},
		{`A=b\`, []pair{{"A", `b\`, false}}},
		{"A=b=c", []pair{{"A", "b=c", false}}},
		{"A=", []pair{{"A", "", false}}},
		{"A.b-c_1=2", []pair{{"A.B-C_1", "2", false}}},
		{"A", nil},
		{"A=1 B", nil},
		{"A= # x", nil},
		{"A= B=1", nil},
		{"export A=1", nil},
		{"=1", nil},
		{`A="b c"`, nil},
		{"A=\x00", nil},
	} {
		lines, err := parse("f", test.text, true)
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
	lines, err := parse("f", "\nA=1 B=2\n\n# x\nC=3", true)
	if err != nil || len(lines) != 2 || lines[0].number != 2 || lines[1].number != 5 {
		t.Errorf("%v %v", lines, err)
	}
}

func TestParseConfig(t *testing.T) {
	for _, test := range []struct {
		text string
		want []pair // nil: an error
	}{
		{"", []pair{}},
		{"   ", []pair{}},
		{"A", []pair{{"A", "", true}}},
		{" A=1  b = 2 ", []pair{{"A", "1", false}, {"b", "2", false}}},
		{"A =1 B= 2 C =", []pair{{"A", "1", false}, {"B", "2", false}, {"C", "", false}}},
		{"A=b=c", []pair{{"A", "b=c", false}}},
		{"A= B=1", []pair{{"A", "B=1", false}}},
		{"A=1#x # y", []pair{{"A", "1#x", false}, {"#", "", true}, {"y", "", true}}},
		{`A="b c"`, []pair{{"A", `"b`, false}, {`c"`, "", true}}},
		{`A=\ B`, []pair{{"A", `\`, false}, {"B", "", true}}},
		{"A=b\tc\n", []pair{{"A", "b\tc\n", false}}},
		{"=1", nil},
		{"A=1 =2", nil},
		{"A=\x00", nil},
	} {
		got, err := parseConfig(test.text)
		if (err != nil) != (test.want == nil) || !slices.Equal(got, test.want) && len(got)+len(test.want) > 0 && err == nil {
			t.Errorf("%q: %v %v, want %v", test.text, got, err, test.want)
		}
	}
}

// What was parsed and is written again parses to the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "A=1", "A = 1 B\t=\t2 # c\n\nC=x\\ y\\\\\n", "CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16",
		"STORE=/dev/shm GROUP=NODE COUNT=1\r\n", "GROUPS=host1 POWER=psu1 SWITCH=0", `A=\ B=\\ C="\\"`, "A=# B=\"#\"", "A=\v", "A=$B${C}$$", `\#=1 a\=b=c\=`, "A==b", `0=="\`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := parse("f", text, false)
		if err != nil {
			return
		}
		var again []string
		for _, l := range lines {
			again = append(again, format(l.pairs))
		}
		back, err := parse("f", strings.Join(again, "\n"), false)
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
				// Nothing that has no '$' changes, and what is expanded once has no variable left.
				once, _ := expand(p.value, func(string) (string, bool) { return "", true })
				if twice, missing := expand(once, func(string) (string, bool) { return "", true }); !strings.Contains(p.value, "$") && once != p.value ||
					len(twice) > len(once) || missing != "" {
					t.Fatalf("%q expands to %q and %q", p.value, once, twice)
				}
			}
		}
		if s, err := ParseSettings("f", text); err == nil {
			if again, err := ParseSettings("f", s.Text()); err != nil || again.Text() != s.Text() {
				t.Fatalf("settings %q became %q: %v", s.Text(), again.Text(), err)
			}
		}
	})
}

// Lines that are right name the prefix directory, also beside others.
func TestFindPrefix(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "scr.conf")
	t.Setenv("SCR_CONF_FILE", conf)
	t.Setenv("SCR_PREFIX", "")
	t.Chdir(dir)
	for text, want := range map[string]string{
		"SCR_FLUSH two\nSCR_PREFIX=/p\n= 3\n":  "/p",
		"STORE= TYPE=XOR\nscr_prefix = /p # x": "/p",
		"SCR_FLUSH=two\nSCR_PREFIX=/p\n":       "/p",
		"SCR_PREFIX\n":                         dir,
		"":                                     dir,
	} {
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := FindPrefix(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A parameter that was 0 or 1 before it could be AUTO accepts all that it did.
func TestBoolOrAuto(t *testing.T) {
	p := Parameter{Name: "X", Type: BoolOrAuto}
	for text, want := range map[string]string{"0": "0", "1": "1", "2": "1", " 1 ": "1", "yes": "1", "No": "0", "auto": "AUTO", " Auto": "AUTO"} {
		if v, err := p.check(text, Source{}); err != nil || v.text != want || p.plain(v) != want {
			t.Errorf("%q: %+v, %v, not %s", text, v, err, want)
		}
	}
	for _, text := range []string{"", "automatic", "x"} {
		if v, err := p.check(text, Source{}); err == nil {
			t.Errorf("%q: %+v", text, v)
		}
	}
}
