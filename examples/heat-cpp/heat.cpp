// heat - examples/heat in C++: a plate cools down, in parallel, and survives the
// loss of a node
//
// It computes the same as the C program and writes the same files, so that each of
// them can restart from a checkpoint of the other.  The calls of SCR are in restart(),
// checkpoint(), iterate() and run(); the rest would be the same without SCR.
//
//     mpicxx -O2 -o heat heat.cpp -lscr
//     mpirun -n 4 ./heat -x 1024 -y 1024 -s 1000 -c 100 -o final.heat

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <mpi.h>
#include <scr.h>

namespace {

// The header of a checkpoint file, which is the same as in examples/heat.
struct Header {
    char magic[8];
    std::uint32_t version, rank, ranks, reserved;
    std::int64_t nx, ny;      // the whole grid
    std::int64_t first, rows; // first row of this rank, and number of rows
    std::int64_t step;        // steps computed
};

void check(int rc, const char* call)
{
    if (rc != SCR_SUCCESS)
        throw std::runtime_error(std::string(call) + " has failed");
}

// ------------------------------------------------------------------ the physics

class Heat {
public:
    int rank, ranks;
    std::int64_t nx, ny, first, rows, step;

    Heat(std::int64_t points, std::int64_t lines) : nx(points), ny(lines), first(0)
    {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        if (ny < ranks)
            throw std::runtime_error("more ranks than rows");
        rows = rows_of(rank);
        for (int r = 0; r < rank; r++)
            first += rows_of(r);
        now.resize(static_cast<std::size_t>((rows + 2) * nx));
        begin();
        next = now;
    }

    // The rows are divided evenly, and the first ranks have one more.
    std::int64_t rows_of(int r) const { return ny / ranks + (r < ny % ranks); }

    // Sets the state at step 0.
    void begin()
    {
        step = 0;
        for (std::int64_t i = -1; i <= rows; i++)
            for (std::int64_t j = 0; j < nx; j++)
                row(now, i)[j] = initial(first + i, j);
    }

    void advance()
    {
        const double k = 0.2; // stable below 0.25

        exchange();
        for (std::int64_t i = 0; i < rows; i++) {
            if (first + i == 0 || first + i == ny - 1)
                continue; // the edge of the plate is constant
            const double *above = row(now, i - 1), *here = row(now, i), *below = row(now, i + 1);
            double* out = row(next, i);
            for (std::int64_t j = 1; j < nx - 1; j++)
                out[j] = here[j] + k * (above[j] + below[j] + here[j - 1] + here[j + 1] - 4.0 * here[j]);
        }
        now.swap(next);
        step++;
    }

    // Writes all ranks' rows to one file, which does not depend on the number of ranks.
    void write_result(const std::string& file)
    {
        if (rank != 0) {
            MPI_Send(row(now, 0), static_cast<int>(nx * rows), MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
            return;
        }
        std::ofstream out(file, std::ios::binary);
        put(out, row(now, 0), rows);
        for (int r = 1; r < ranks; r++) { // rank 0 has the most rows
            MPI_Recv(next.data(), static_cast<int>(nx * rows_of(r)), MPI_DOUBLE, r, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            put(out, next.data(), rows_of(r));
        }
        out.close();
        if (!out)
            throw std::runtime_error("cannot write " + file);
        say("result in " + file);
    }

    bool save(const std::string& file)
    {
        const Header head = header();
        std::ofstream out(file, std::ios::binary);
        out.write(reinterpret_cast<const char*>(&head), sizeof head);
        put(out, row(now, 0), rows);
        out.close();
        if (!out)
            complain("cannot write " + file);
        return !out.fail();
    }

    // Reads the step from the header; everything else in it must be what this rank would write.
    bool load(const std::string& file)
    {
        Header found, ours = header();
        std::ifstream in(file, std::ios::binary);
        in.read(reinterpret_cast<char*>(&found), sizeof found);
        if (in) {
            ours.step = found.step;
            if (found.step >= 0 && std::memcmp(&found, &ours, sizeof found) == 0)
                in.read(reinterpret_cast<char*>(row(now, 0)), rows * nx * static_cast<std::streamsize>(sizeof(double)));
            else
                in.setstate(std::ios::failbit);
        }
        const bool ok = in && in.peek() == std::ifstream::traits_type::eof();
        if (ok)
            step = found.step;
        else
            complain("cannot use " + file);
        return ok;
    }

    void say(const std::string& line) const
    {
        if (rank == 0)
            std::cout << line << std::endl;
    }

    void complain(const std::string& what) const { std::cerr << "heat: rank " << rank << ": " << what << std::endl; }

private:
    std::vector<double> now, next; // row -1 and row `rows` are copies of the neighbours' rows

    double* row(std::vector<double>& field, std::int64_t i) { return field.data() + (i + 1) * nx; }

    // A warm plate with two hot discs and a cold bar, its edges held at 0.
    double initial(std::int64_t i, std::int64_t j) const
    {
        const double x = static_cast<double>(j) / static_cast<double>(nx - 1);
        const double y = static_cast<double>(i) / static_cast<double>(ny - 1);

        if (i == 0 || j == 0 || i == ny - 1 || j == nx - 1)
            return 0.0;
        if ((x - 0.3) * (x - 0.3) + (y - 0.35) * (y - 0.35) < 0.02)
            return 100.0;
        if ((x - 0.7) * (x - 0.7) + (y - 0.6) * (y - 0.6) < 0.01)
            return 80.0;
        if (std::fabs(x - 0.5) < 0.02 && y > 0.2 && y < 0.9)
            return -50.0;
        return 20.0;
    }

    void exchange()
    {
        const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
        const int down = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
        const int n = static_cast<int>(nx);

        MPI_Sendrecv(row(now, 0), n, MPI_DOUBLE, up, 0, row(now, rows), n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(row(now, rows - 1), n, MPI_DOUBLE, down, 1, row(now, -1), n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }

    Header header() const
    {
        Header head;
        std::memset(&head, 0, sizeof head);
        std::memcpy(head.magic, "HEATCKPT", sizeof head.magic);
        head.version = 1;
        head.rank = static_cast<std::uint32_t>(rank);
        head.ranks = static_cast<std::uint32_t>(ranks);
        head.nx = nx;
        head.ny = ny;
        head.first = first;
        head.rows = rows;
        head.step = step;
        return head;
    }

    void put(std::ofstream& out, const double* values, std::int64_t count) const
    {
        out.write(reinterpret_cast<const char*>(values), count * nx * static_cast<std::streamsize>(sizeof(double)));
    }
};

// -------------------------------------------------------------------- using SCR

// The files of the checkpoint at step 1200 are heat.1200/rank_0.ckpt, heat.1200/rank_1.ckpt, ...
std::string file_name(const std::string& checkpoint, int rank)
{
    return checkpoint + "/rank_" + std::to_string(rank) + ".ckpt";
}

// Restarts from the newest checkpoint that all ranks can read, if there is one.
void restart(Heat& h)
{
    for (;;) {
        char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME];
        int have = 0;

        check(SCR_Have_restart(&have, name), "SCR_Have_restart");
        if (!have)
            return;
        check(SCR_Start_restart(name), "SCR_Start_restart");
        const bool read = SCR_Route_file(file_name(name, h.rank).c_str(), file) == SCR_SUCCESS && h.load(file);

        // The files of all ranks must be of the same step.
        std::int64_t extremes[2] = {read ? h.step : -1, read ? -h.step : 1};
        MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
        if (SCR_Complete_restart(read && extremes[0] == -extremes[1]) == SCR_SUCCESS) {
            h.say("restarted from " + std::string(name) + " at step " + std::to_string(h.step));
            return;
        }
        // Some ranks may have read their rows before another failed.
        h.say(std::string(name) + " cannot be used, looking for an older one");
        h.begin();
    }
}

// The program continues when a checkpoint fails, because the previous one still exists.
void checkpoint(Heat& h)
{
    const std::string name = "heat." + std::to_string(h.step);
    char file[SCR_MAX_FILENAME];

    if (SCR_Start_output(name.c_str(), SCR_FLAG_CHECKPOINT) != SCR_SUCCESS) {
        h.say("checkpoint " + name + " could not be started");
        return;
    }
    const bool valid = SCR_Route_file(file_name(name, h.rank).c_str(), file) == SCR_SUCCESS && h.save(file);
    const bool done = SCR_Complete_output(valid) == SCR_SUCCESS;
    h.say("checkpoint " + name + (done ? " complete" : " failed"));
}

// ------------------------------------------------------------------------- main

struct Options {
    std::int64_t nx = 1024, ny = 1024, steps = 1000, every = 100;
    std::string output;

    Options(int argc, char** argv)
    {
        for (int i = 1; i < argc; i += 2) {
            const std::string option = argv[i];
            if (i + 1 == argc)
                usage();
            if (option == "-x")
                nx = number(argv[i + 1], 3);
            else if (option == "-y")
                ny = number(argv[i + 1], 3);
            else if (option == "-s")
                steps = number(argv[i + 1], 0);
            else if (option == "-c")
                every = number(argv[i + 1], 0);
            else if (option == "-o")
                output = argv[i + 1];
            else
                usage();
        }
    }

    static void usage()
    {
        throw std::invalid_argument("usage: heat [-x NX] [-y NY] [-s STEPS] [-c STEPS] [-o FILE]");
    }

    static std::int64_t number(const char* text, std::int64_t least)
    {
        char* end;
        const std::int64_t value = std::strtoll(text, &end, 10);
        if (end == text || *end != '\0' || value < least)
            usage();
        return value;
    }
};

void iterate(Heat& h, const Options& o)
{
    while (h.step < o.steps) {
        int flag = 0;

        h.advance();
        if (o.every == 0 || h.step % o.every != 0 || h.step == o.steps)
            continue;
        check(SCR_Need_checkpoint(&flag), "SCR_Need_checkpoint");
        if (flag)
            checkpoint(h);
        check(SCR_Should_exit(&flag), "SCR_Should_exit");
        if (flag) {
            h.say("asked to stop at step " + std::to_string(h.step));
            return;
        }
    }
}

void run(const Options& o)
{
    Heat h(o.nx, o.ny);
    // iterate() asks only every o.every steps, so the answer should be yes each time.
    // A user can override this in the environment.
    SCR_Config("SCR_CHECKPOINT_INTERVAL=1");
    check(SCR_Init(), "SCR_Init");

    restart(h);
    iterate(h, o);
    if (h.step >= o.steps && !o.output.empty())
        h.write_result(o.output);
    check(SCR_Finalize(), "SCR_Finalize");
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    try {
        run(Options(argc, argv));
    } catch (const std::exception& e) {
        std::cerr << "heat: " << e.what() << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
