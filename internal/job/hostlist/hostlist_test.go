package hostlist

import (
	"slices"
	"strings"
	"testing"
)

func expand(t testing.TB, list string) []string {
	t.Helper()
	hosts, err := Expand(list)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

func TestExpandAndCompress(t *testing.T) {
	for _, c := range []struct{ list, hosts, compressed string }{
		{"", "", ""},
		{" , ,", "", ""},
		{"login", "login", "login"},
		{"atlas[3,5-7,9-11]", "atlas3 atlas5 atlas6 atlas7 atlas9 atlas10 atlas11", "atlas[3,5-7,9-11]"},
		{"n9,n10,n8", "n9 n10 n8", "n[8-10]"},
		{"n1 n2\tn3\nx", "n1 n2 n3 x", "n[1-3],x"},
		{"n[08-11]", "n08 n09 n10 n11", "n[08-11]"},
		{"n[8-11]", "n8 n9 n10 n11", "n[8-11]"},
		{"n[098-101]", "n098 n099 n100 n101", "n[098-101]"},
		{"n[1,01,2,02]", "n1 n01 n2 n02", "n[1-2,01-02]"},
		{"n[9,010]", "n9 n010", "n[9,010]"},
		{"n[09,10]", "n09 n10", "n[09-10]"},
		{"n[0-1]", "n0 n1", "n[0-1]"},
		{"n[1,3]", "n1 n3", "n[1,3]"},
		{"n1,n1", "n1 n1", "n1"},
		{"a[1-2],b[1-2],a4", "a1 a2 b1 b2 a4", "a[1-2,4],b[1-2]"},
		{"rack[1-2]node[0-1]", "rack1node0 rack1node1 rack2node0 rack2node1", "rack[1-2]node[0-1]"},
		{"rack1node[0-1],rack2node0", "rack1node0 rack1node1 rack2node0", "rack1node[0-1],rack2node0"},
		{"n[1-2]-ib.site", "n1-ib.site n2-ib.site", "n[1-2]-ib.site"},
		{"[1-3]", "1 2 3", "[1-3]"},
		{"10.0.0.[1-2]", "10.0.0.1 10.0.0.2", "10.0.0.[1-2]"},
		{"x9999999999999999999999,x9999999999999999999998", "x9999999999999999999999 x9999999999999999999998",
			"x9999999999999999999998,x9999999999999999999999"},
	} {
		hosts := expand(t, c.list)
		if got := strings.Join(hosts, " "); got != c.hosts {
			t.Errorf("Expand(%q) = %q, want %q", c.list, got, c.hosts)
		}
		if got := Compress(hosts); got != c.compressed {
			t.Errorf("Compress(%q) = %q, want %q", c.hosts, got, c.compressed)
		}
	}
}

func TestExpand_BadLists(t *testing.T) {
	for _, list := range []string{
		"n[", "n]", "n[1", "n1]", "n[[1]]", "n[]", "n[1,]", "n[a]", "n[1-]", "n[-1]", "n[3-1]", "n[1-2-3]",
		"n[1-99999999999]", "n[1-99999999999999999999]", "n[0-999]m[0-999]k[0-999]", "a b;c", "a$(b)", "-x", "-[1-2]",
		"a/b", "näh", "n[1:2]", "n[0-1000000],m[0-1000000]",
	} {
		if hosts, err := Expand(list); err == nil {
			t.Errorf("%q: no error, but %d hosts", list, len(hosts))
		} else if list[0] != 'n' && !strings.Contains(err.Error(), list) {
			t.Errorf("%q: error does not say which list: %v", list, err)
		}
	}
}

func TestSums(t *testing.T) {
	a, b := expand(t, "atlas[3,5-7,9-11]"), expand(t, "atlas[5,7,20]")
	for what, c := range map[string]struct {
		hosts []string
		want  string
	}{
		"minus":        {Minus(a, b), "atlas[3,6,9-11]"},
		"intersection": {Intersection(a, b), "atlas[5,7]"},
		"union":        {Union(a, b), "atlas[3,5-7,9-11,20]"},
		"minus itself": {Minus(a, a), ""},
		"with nothing": {Union(nil, b, nil), "atlas[5,7,20]"},
	} {
		if got := Compress(c.hosts); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	for n, want := range map[int]string{1: "atlas3", 3: "atlas6", 7: "atlas11", -1: "atlas11", -7: "atlas3", 0: "", 8: "", -8: ""} {
		got, err := Nth(a, n)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Nth(%d) = %q, %v", n, got, err)
		}
	}
	parsed, err := Parse("n10,n9,m1,n9")
	if err != nil || strings.Join(parsed, " ") != "m1 n9 n10" {
		t.Error(parsed, err)
	}
}

func TestCompress_ManyHosts(t *testing.T) {
	hosts := expand(t, "r[0-15]n[000-999]")
	if got := Compress(hosts); got != "r[0-15]n[000-999]" {
		t.Error(shorten(got))
	}
}

// Whatever is read at all is the same after it was written and read again.
func FuzzExpand(f *testing.F) {
	for _, list := range []string{"atlas[3,5-7,9-11]", "n[08-11],n8,n08", "r[1-2]n[0-1]x", "a, b", "[1]", "n[1,01,001-3]", "n[", "1.2.[3-4]"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := Expand(list)
		if err != nil {
			return
		}
		if len(hosts) > 10000 {
			t.Skip("too long to be looked at")
		}
		short := Compress(hosts)
		again, err := Expand(short)
		if err != nil {
			t.Fatalf("%q became %q: %v", list, short, err)
		}
		if len(again) != len(sorted(hosts)) || !slices.Equal(sorted(again), sorted(hosts)) {
			t.Fatalf("%q is %q, became %q", list, hosts, short)
		}
		if Compress(again) != short {
			t.Fatalf("%q is not as short as it gets: %q", short, Compress(again))
		}
	})
}
