//go:build mpi

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/goscr/goscr/cr/image"
	"github.com/goscr/goscr/cr/inside"
	"github.com/goscr/goscr/internal/session"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
)

const usage = `usage: scr_image PROGRAM [ARGUMENT...]

Starts a program on each rank, which must not use MPI, and saves and restores its process by the
commands SCR_CR_IMAGE and SCR_CR_IMAGE_RESTORE. Use it with a launcher: mpirun -n 4 scr_image ./app`

func main() {
	if len(os.Args) < 2 || os.Args[1] == "-h" || os.Args[1] == "--help" {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	status := 0
	err := mpi.Try(func() (err error) {
		status, err = run(os.Args[1:])
		return err
	})
	if err != nil {
		status = failed(err)
	}
	os.Exit(status) // unless that is 0, the launcher ends the other ranks
}

// failed prints an error, once for all ranks and on those whose program has failed, and returns the status with which the rank ends.
func failed(err error) int {
	failed := (*image.Failed)(nil)
	if errors.As(err, &failed) || system.Rank() <= 0 {
		fmt.Fprintf(os.Stderr, "scr_image: %v\n", err)
	}
	if failed != nil {
		return failed.Status
	}
	return 1
}

// run returns the status with which the rank ends, or an error that is to be printed.
func run(argv []string) (status int, err error) {
	if err := system.Init(); err != nil {
		return 0, err
	}
	world, err := system.World()
	if err != nil {
		return 0, err
	}
	session, err := session.Init(world, session.Options{})
	if err != nil {
		return 0, err
	}
	commands, err := commandsOf(session)
	if err == nil {
		err = commands.Check(context.Background())
	}
	scratch := ""
	if err == nil {
		scratch, err = os.MkdirTemp("", "goscr-image.")
	}
	if err := session.Agree(err); err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	p := image.NewProgram(argv, commands, scratch)
	endWith(p, scratch)
	job := image.Job{World: world, Session: session, Program: p, Pause: 100 * time.Millisecond, Grace: 10 * time.Second}
	if err := job.Run(); err != nil {
		status := failed(err)
		return status, session.Agree(nil) // a rank that ends before another has printed the reason ends that one, too
	}
	if err := session.Finalize(); err != nil {
		return 0, err
	}
	world.Free()
	return 0, system.Finalize()
}

func commandsOf(s *session.Session) (c image.Commands, err error) {
	var values [3]string
	for i, name := range []string{"SCR_CR_IMAGE", "SCR_CR_IMAGE_RESTORE", "SCR_CR_LIMIT_SECONDS"} {
		if values[i], _, err = s.Query(name); err != nil {
			return c, err
		}
	}
	if values[2] == "" {
		values[2] = inside.LimitSeconds
	}
	limit, err := strconv.ParseFloat(values[2], 64)
	if err != nil {
		return c, err
	}
	return image.New(values[0], values[1], time.Duration(limit*float64(time.Second)))
}

// endWith ends the program and removes scratch when a signal ends this process. If it is killed, the
// kernel kills the program, but not the processes that the program has started.
func endWith(p *image.Program, scratch string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		s := (<-signals).(syscall.Signal)
		p.Abort()
		os.RemoveAll(scratch)
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s)
	}()
}
