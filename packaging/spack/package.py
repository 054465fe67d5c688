# SPDX-License-Identifier: BSD-3-Clause

from spack.package import *


class Goscr(MakefilePackage):
    """Scalable checkpoint/restart for MPI programs, with the interface of SCR 3.1."""

    homepage = "https://github.com/goscr/goscr"
    git = "https://github.com/goscr/goscr.git"

    license("BSD-3-Clause")

    # Releases are added here with the checksums of the archives that `make dist` makes.
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("fortran", type="build")
    depends_on("go@1.24:", type="build")
    depends_on("gmake", type="build")
    depends_on("mpi")

    def setup_build_environment(self, env):
        env.set("GOCACHE", join_path(self.stage.path, "go-cache"))
        env.set("GOMODCACHE", join_path(self.stage.path, "go-modules"))
        env.set("GOTOOLCHAIN", "local")

    @property
    def build_targets(self):
        return [f"MPICC={self.spec['mpi'].mpicc}", f"PREFIX={self.prefix}", "all"]

    def install(self, spec, prefix):
        make("install", f"PREFIX={prefix}")

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", self.prefix.lib.python)
        env.set("SCR_LIB", self.prefix.lib)
