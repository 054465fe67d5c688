package main

import "testing"

func TestGlobHosts(t *testing.T) {
	const a, b = "atlas[3,5-7,9-11]", "atlas[5,7,20]"
	for _, x := range []struct {
		want string
		args []string
	}{
		{"7", []string{"--count", a}},
		{"7", []string{"--count=" + a}},
		{"atlas6", []string{"--nth", "3", a}},
		{"atlas11", []string{"--nth=-1", a}},
		{"atlas[3,6,9-11]", []string{"--minus", a + ":" + b}},
		{"atlas[3,6,9-11]", []string{"-m", a, b}},
		{"atlas[5,7]", []string{"--intersection", a + ":" + b}},
		{"atlas[3,5-7,9-11,20]", []string{"--union", a, b}},
		{"atlas3 atlas5 atlas6 atlas7 atlas9 atlas10 atlas11", []string{"--expand", a}},
		{a, []string{"--compress", "atlas11 atlas10", "atlas9,atlas3,atlas7,atlas6,atlas5,atlas5"}},
		{"n[08-10]", []string{"-c", "n08,n09,n10"}},
		{"", []string{"--minus", a + ":" + a}},
		{"atlas[3,6,9-11]", []string{"--minus", a + ":", b}},
		{"atlas3", []string{"--minus", "atlas3:"}},
		{"0", []string{"--count", ""}},
		{"7", []string{"--count", "-h", a}},
		{"atlas[3,6,9-11]", []string{"-h", a, "-h", b, "--minus"}},
	} {
		if out, _ := run(t, 0, append([]string{"scr_glob_hosts"}, x.args...)...); out != x.want+"\n" {
			t.Errorf("%q: %q, want %q", x.args, out, x.want)
		}
	}
	run(t, 1, "scr_glob_hosts", "--nth", "8", a)
	run(t, 1, "scr_glob_hosts", "--count", "n[3-1]")
	for _, args := range [][]string{{}, {a}, {"--count"}, {"--count", "--expand", a}, {"--minus", a}, {"--minus", a, a, a}, {"--nth", "x", a}} {
		run(t, 2, append([]string{"scr_glob_hosts"}, args...)...)
	}
}

func TestHostlist(t *testing.T) {
	const a, b = "atlas[3,5-7,9-11]", "atlas[5,7,20]"
	for _, x := range []struct {
		want string
		args []string
	}{
		{a, []string{"atlas11,atlas10", "atlas9,atlas3,atlas7,atlas6,atlas5,atlas5"}},
		{"7", []string{"-c", a}},
		{"atlas3,atlas5,atlas6,atlas7,atlas9,atlas10,atlas11", []string{"-e", a}},
		{"atlas3\natlas5", []string{"--expand", "-d", `\n`, "-s", "2", a}},
		{"atlas10:atlas11", []string{"-e", "-d:", "-s", "-2", a}},
		{a, []string{"-s", "99", a}},
		{a, []string{"--size=-99", a}},
		{"atlas6", []string{"-n", "3", a}},
		{"atlas11", []string{"-n", "-1", a}},
		{"atlas[3,6,9-11]", []string{"-m", a, b}},
		{"5", []string{"-mc", a, b}},
		{"atlas[5,7]", []string{"--intersection", a, b}},
		{"localhost", []string{"localhost"}},
		{"0", []string{"-c", ""}},
		{"", []string{"-m", a, a}},
	} {
		if out, _ := run(t, 0, append([]string{"scr_hostlist"}, x.args...)...); out != x.want+"\n" {
			t.Errorf("%q: %q, want %q", x.args, out, x.want)
		}
	}
	run(t, 1, "scr_hostlist", "-n", "8", a)
	run(t, 1, "scr_hostlist", "-n", "0", a)
	run(t, 1, "scr_hostlist", "n[3-1]")
	for _, args := range [][]string{{}, {"-m", a}, {"-i", a, b, b}, {"-m", "-i", a, b}, {"-u", a}} {
		run(t, 2, append([]string{"scr_hostlist"}, args...)...)
	}
}
