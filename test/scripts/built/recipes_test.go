package built

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recipe executes a recipe with this Python program, which prints what it says as JSON.
func recipe(t *testing.T, program, file string, to any) {
	t.Helper()
	cmd := exec.Command("python3", "-c", program, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	must(t, json.Unmarshal(out, to))
}

// makes checks that the Makefile has the targets and variables of a recipe.
func makes(t *testing.T, b build, arguments ...string) {
	t.Helper()
	cmd := exec.Command("make", append([]string{"-C", b.root, "-n", "BUILD=" + b.dir}, arguments...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("make %q: %v\n%s", arguments, err, out)
	}
	text, err := os.ReadFile(filepath.Join(b.root, "Makefile"))
	must(t, err)
	for _, a := range arguments {
		if name, _, ok := strings.Cut(a, "="); ok && !regexp.MustCompile(`(?m)^`+name+`\s*\?=`).Match(text) {
			t.Errorf("the Makefile does not take %s", a)
		}
	}
}

// spack executes a package of Spack with those of Spack's names that it uses.
const spack = `
import json, sys, types

class Env(dict):
    set = dict.__setitem__
    prepend_path = dict.__setitem__

class MakefilePackage:
    pass

class Path(str):
    def __getattr__(self, name):
        return Path(self + "/" + name)

said, installs = {}, []
def directive(name):
    return lambda *args, **options: said.setdefault(name, []).append(args[0])
package = types.ModuleType("spack.package")
package.MakefilePackage = MakefilePackage
package.join_path = lambda *parts: "/".join(parts)
package.make = lambda *args: installs.extend(args)
for name in ["license", "version", "depends_on"]:
    setattr(package, name, directive(name))
sys.modules["spack"] = types.ModuleType("spack")
sys.modules["spack.package"] = package
names = {}
with open(sys.argv[1]) as f:
    exec(compile(f.read(), sys.argv[1], "exec"), names)
p = names["Goscr"]()
p.prefix, p.stage = Path("/prefix"), types.SimpleNamespace(path="/stage")
p.spec = {"mpi": types.SimpleNamespace(mpicc="/mpi/bin/mpicc")}
build, run = Env(), Env()
p.setup_build_environment(build)
p.setup_run_environment(run)
p.install(p.spec, p.prefix)
print(json.dumps({"Said": said, "Targets": p.build_targets, "Install": installs, "Run": run}))
`

func TestInstall_SpackRecipe(t *testing.T) {
	b, tree := tree(t)
	var r struct {
		Said             map[string][]string
		Targets, Install []string
		Run              map[string]string
	}
	recipe(t, spack, filepath.Join(b.root, "packaging/spack/package.py"), &r)
	makes(t, b, r.Targets...)
	makes(t, b, r.Install...)
	for variable, file := range map[string]string{"PYTHONPATH": "scr.py", "SCR_LIB": "libscr.so"} {
		dir, ok := strings.CutPrefix(r.Run[variable], "/prefix/")
		if _, err := os.Stat(filepath.Join(tree, dir, file)); !ok || err != nil {
			t.Errorf("%s=%s: %v", variable, r.Run[variable], err)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.root, "go.mod"))
	must(t, err)
	need := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(text)
	if all := strings.Join(r.Said["depends_on"], " "); need == nil || !strings.Contains(all, "go@"+string(need[1])+":") || !strings.Contains(all, "mpi") {
		t.Errorf("depends on %s, and go.mod needs Go %s", all, need)
	}
}

// easybuild executes a recipe of EasyBuild, which is assignments.
const easybuild = `
import json, sys
names = {"SYSTEM": "system"}
with open(sys.argv[1]) as f:
    exec(compile(f.read(), sys.argv[1], "exec"), names)
names = {k: v for k, v in names.items() if not k.startswith("__")}
print(json.dumps(names))
`

func TestInstall_EasyBuildRecipe(t *testing.T) {
	b, tree := tree(t)
	list, err := filepath.Glob(filepath.Join(b.root, "packaging/easybuild/*.eb"))
	must(t, err)
	if len(list) != 1 {
		t.Fatal(list)
	}
	var r struct {
		Name, Version                    string
		Toolchain                        map[string]string
		Buildopts, Installopts           string
		Paths                            map[string][]string `json:"sanity_check_paths"`
		Commands                         []string            `json:"sanity_check_commands"`
		Modextrapaths                    map[string]string
		Easyblock, Moduleclass, Homepage string
	}
	recipe(t, easybuild, list[0], &r)
	if want := r.Name + "-" + r.Version + "-" + r.Toolchain["name"] + "-" + r.Toolchain["version"] + ".eb"; filepath.Base(list[0]) != want {
		t.Errorf("%s should be called %s", list[0], want)
	}
	changes, err := os.ReadFile(filepath.Join(b.root, "CHANGELOG.md"))
	must(t, err)
	if newest := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(changes); newest == nil || string(newest[1]) != r.Version {
		t.Errorf("it is for version %s, and the newest of CHANGELOG.md is %s", r.Version, newest)
	}
	in := func(options string) []string {
		return strings.Fields(strings.ReplaceAll(options, "%(installdir)s", "/prefix"))
	}
	makes(t, b, in(r.Buildopts)...)
	makes(t, b, append(in(r.Installopts), "install")...)
	if len(r.Paths["files"]) == 0 || len(r.Paths["dirs"]) == 0 || len(r.Commands) == 0 {
		t.Errorf("nothing is checked: %+v", r)
	}
	for kind, names := range r.Paths {
		for _, name := range names {
			if info, err := os.Stat(filepath.Join(tree, name)); err != nil || info.IsDir() != (kind == "dirs") {
				t.Errorf("%s is not among the %s: %v", name, kind, err)
			}
		}
	}
	for _, command := range r.Commands {
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(tree, "bin")+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(tree, r.Modextrapaths["PYTHONPATH"], "scr.py")); err != nil {
		t.Error(err)
	}
}

// The prolog makes a directory in which the user of the job can write, and nobody else: for a user whom
// the node knows by number only, with and without the group that newer versions of Slurm name.
func TestInstall_SlurmProlog(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("Slurm runs a prolog as root")
	}
	prolog, err := filepath.Abs("../../../packaging/slurm/prolog")
	must(t, err)
	for _, group := range []string{"", "SLURM_JOB_GID=4714"} {
		for name, before := range map[string]func(dir string) error{
			"nothing is there":      func(string) error { return nil },
			"it is root's":          func(dir string) error { return os.Mkdir(dir, 0o700) },
			"it is somebody else's": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o777), os.Chown(dir, 4712, 4712)) },
			"it is a link":          func(dir string) error { return os.Symlink("/etc", dir) },
			"it is the user's":      func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 4713, 4713)) },
		} {
			t.Run(group+" "+name, func(t *testing.T) {
				base, err := os.MkdirTemp("", "prolog.") // all directories above it are open to the user
				must(t, err)
				defer os.RemoveAll(base)
				must(t, os.Chmod(base, 0o1777))
				must(t, before(filepath.Join(base, "alice")))
				run(t, "env", "BASES="+base, "SLURM_JOB_USER=alice", "SLURM_JOB_UID=4713", cmp.Or(group, "X="), "SLURM_JOB_ID=17", "sh", prolog)
				as := func(id string) *exec.Cmd {
					return exec.Command("setpriv", "--reuid", id, "--regid", id, "--clear-groups", "sh", "-c", "echo data >"+filepath.Join(base, "alice", id))
				}
				if out, err := as("4713").CombinedOutput(); err != nil {
					t.Errorf("the user cannot write there: %v\n%s", err, out)
				}
				if err := as("4712").Run(); err == nil {
					t.Error("another user can write there")
				}
			})
		}
	}
}
