/*
 * The C++ interface of VELOC 1.8, in goscr: the calls of veloc.h, sets of ids, variables that a program serializes, observers, and
 * checkpoints of other ranks. It needs no library but libveloc-client.so. docs/variables.md describes it.
 */

#ifndef GOSCR_VELOC_HPP
#define GOSCR_VELOC_HPP

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "veloc.h"

extern "C" {
int VELOC_Restart_test_of(const char *name, int version, int target_rank);
int VELOC_Restart_begin_of(const char *name, int version, int target_rank);
int VELOC_Recover_all_of(void);
int VELOC_Place_of(int id, void *ptr, size_t size, const char *name);
int VELOC_Uses_of(const char *name);
long long VELOC_Recover_size_of(int id);
}

namespace veloc {

/* Methods return whether they have succeeded, unless a comment says otherwise. */
class client_t {
  protected:
    using serializer_t = std::function<void(std::ostream &)>;
    using deserializer_t = std::function<bool(std::istream &)>;
    using observer_t = std::function<void(const std::string &name, int version)>;

  public:
    virtual bool mem_protect(int id, void *ptr, size_t count, size_t base_size, const std::string &name = "default") = 0;
    virtual bool mem_protect(int id, const serializer_t &s, const deserializer_t &d, const std::string &name = "default") = 0;
    virtual bool mem_unprotect(int id, const std::string &name = "default") = 0;
    virtual void mem_clear(const std::string &name = "default") = 0;
    virtual bool register_observer(int type, const observer_t &obs) = 0;

    virtual std::string route_file(const std::string &original) = 0; /* "" if it has failed */
    virtual bool cleanup(const std::string &name) = 0;

    virtual bool checkpoint(const std::string &name, int version) = 0;
    virtual bool checkpoint_begin(const std::string &name, int version) = 0;
    virtual bool checkpoint_mem(int mode, const std::set<int> &ids) = 0;
    virtual bool checkpoint_end(bool success) = 0;
    virtual bool checkpoint_wait() = 0;
    virtual bool checkpoint_finished() = 0;

    /* With target_rank >= 0 only the caller takes part, and reads the file of that rank in the persistent directory. */
    virtual int restart_test(const std::string &name, int version, int target_rank = -1) = 0; /* the version, or VELOC_FAILURE */
    virtual bool restart(const std::string &name, int version, int target_rank = -1) = 0;
    virtual bool restart_begin(const std::string &name, int version, int target_rank = -1) = 0;
    virtual size_t recover_size(int id) = 0; /* 0 if the version has no such variable */
    virtual bool recover_mem(int mode, const std::set<int> &ids) = 0;
    virtual bool restart_end(bool success) = 0;

    virtual ~client_t() = default;
};

namespace goscr {

/* The client. It keeps the serializers; all else is in the library. */
class client final : public client_t {
    struct serialized {
        serializer_t write;
        deserializer_t read;
    };
    std::map<std::pair<std::string, int>, serialized> objects; /* by group and id */
    std::map<int, observer_t> observers;
    std::string current; /* name of the checkpoint that is being written or read */
    int version = 0;

    /* The group of all names that have none of their own, which is NULL for the library. */
    static bool anywhere(const std::string &name) { return name == "default" || name.empty(); }
    static const char *group(const std::string &name) { return anywhere(name) ? nullptr : name.c_str(); }
    static bool ok(int rc) { return rc == VELOC_SUCCESS; }

    bool protect(int id, void *ptr, size_t n, const std::string &name)
    {
        const char *own = group(name);
        return ok(own ? VELOC_Region_protect(id, ptr, n, 1, own) : VELOC_Mem_protect(id, ptr, n, 1));
    }

    /* The library ends what the id was in other groups if the group is that of all names. */
    void forget(int id, const std::string &name)
    {
        for (auto it = objects.begin(); it != objects.end();)
            it = it->first.second == id && (anywhere(name) || it->first.first == name) ? objects.erase(it) : std::next(it);
    }

    /* A list that C takes. */
    static std::vector<int> list(const std::set<int> &ids) { return std::vector<int>(ids.begin(), ids.end()); }

    /* The library keeps the memory of an object only while it writes or reads that. */
    static bool place(const std::pair<std::string, int> &object, std::string &text)
    {
        return ok(VELOC_Place_of(object.second, text.empty() ? nullptr : &text[0], text.size(), group(object.first)));
    }

    /* Whether an object is of the checkpoint that is being written or read. */
    bool selected(int mode, const std::set<int> &ids, const std::pair<std::string, int> &object) const
    {
        return VELOC_Uses_of(group(object.first)) &&
               (mode == VELOC_CKPT_ALL || (ids.count(object.second) != 0) == (mode == VELOC_CKPT_SOME));
    }

  public:
    bool mem_protect(int id, void *ptr, size_t count, size_t base_size, const std::string &name) override
    {
        const char *own = group(name);
        bool done = ok(own ? VELOC_Region_protect(id, ptr, count, base_size, own) : VELOC_Mem_protect(id, ptr, count, base_size));

        if (done)
            forget(id, name);
        return done;
    }

    bool mem_protect(int id, const serializer_t &s, const deserializer_t &d, const std::string &name) override
    {
        if (!protect(id, nullptr, 0, name)) /* its memory is known only when it is written */
            return false;
        forget(id, name);
        objects[std::make_pair(name, id)] = serialized{s, d};
        return true;
    }

    bool mem_unprotect(int id, const std::string &name) override
    {
        const char *own = group(name);

        forget(id, name);
        return ok(own ? VELOC_Region_unprotect(id, own) : VELOC_Mem_unprotect(id));
    }

    void mem_clear(const std::string &name) override
    {
        const char *own = group(name);

        for (auto it = objects.begin(); it != objects.end();)
            it = it->first.first == name ? objects.erase(it) : std::next(it);
        if (own)
            VELOC_Region_clear(own);
        else
            VELOC_Mem_clear();
    }

    bool register_observer(int type, const observer_t &obs) override
    {
        if (type != VELOC_OBSERVE_CKPT_END)
            return false;
        observers[type] = obs;
        return true;
    }

    std::string route_file(const std::string &original) override
    {
        char path[VELOC_MAX_NAME] = "";

        return ok(VELOC_Route_file(original.c_str(), path)) ? path : "";
    }

    bool cleanup(const std::string &name) override { return ok(VELOC_Cleanup(name.c_str())); }

    bool checkpoint(const std::string &name, int v) override
    {
        if (!checkpoint_begin(name, v))
            return false;
        bool written = false;
        try {
            written = checkpoint_mem(VELOC_CKPT_ALL, std::set<int>());
        } catch (...) { /* of a serializer: the other ranks wait for this one */
            checkpoint_end(false);
            throw;
        }
        return checkpoint_end(written) && written;
    }

    bool checkpoint_begin(const std::string &name, int v) override
    {
        if (!ok(VELOC_Checkpoint_begin(name.c_str(), v)))
            return false;
        current = name;
        version = v;
        return true;
    }

    bool checkpoint_mem(int mode, const std::set<int> &ids) override
    {
        std::map<std::pair<std::string, int>, std::string> texts;
        std::vector<int> chosen = list(ids);
        bool done = true;

        for (auto &o : objects)
            if (selected(mode, ids, o.first)) {
                std::ostringstream out(std::ios::out | std::ios::binary);
                o.second.write(out);
                texts[o.first] = out.str();
                done = out.good() && done;
            }
        for (auto &t : texts) /* only now: a serializer may throw, and the library must not keep a text that is gone */
            done = place(t.first, t.second) && done;
        done = done && ok(VELOC_Checkpoint_selective(mode, chosen.data(), static_cast<int>(chosen.size())));
        std::string none;
        for (auto &t : texts)
            done = place(t.first, none) && done;
        return done;
    }

    bool checkpoint_end(bool success) override
    {
        bool done = ok(VELOC_Checkpoint_end(success));
        auto it = observers.find(VELOC_OBSERVE_CKPT_END);

        if (it != observers.end())
            it->second(current, version);
        return done;
    }

    bool checkpoint_wait() override { return ok(VELOC_Checkpoint_wait()); }
    bool checkpoint_finished() override { return VELOC_Checkpoint_finished() == 1; }

    int restart_test(const std::string &name, int v, int target_rank) override { return VELOC_Restart_test_of(name.c_str(), v, target_rank); }

    bool restart(const std::string &name, int v, int target_rank) override
    {
        if (!restart_begin(name, v, target_rank))
            return false;
        bool read = false;
        try { /* with the communicator: on all ranks, or on none, memory is changed */
            read = recover(VELOC_RECOVER_ALL, std::set<int>(), target_rank < 0);
        } catch (...) { /* of a deserializer */
            restart_end(false);
            throw;
        }
        return restart_end(read) && read;
    }

    bool restart_begin(const std::string &name, int v, int target_rank) override
    {
        if (!ok(VELOC_Restart_begin_of(name.c_str(), v, target_rank)))
            return false;
        current = name;
        return true;
    }

    size_t recover_size(int id) override
    {
        long long size = VELOC_Recover_size_of(id);

        return size < 0 ? 0 : static_cast<size_t>(size);
    }

    bool recover_mem(int mode, const std::set<int> &ids) override { return recover(mode, ids, false); }

    bool recover(int mode, const std::set<int> &ids, bool together)
    {
        std::map<std::pair<std::string, int>, std::string> texts;
        std::vector<int> chosen = list(ids);
        std::string none;
        bool done = true;

        for (auto &o : objects)
            if (selected(mode, ids, o.first) && VELOC_Recover_size_of(o.first.second) >= 0)
                done = place(o.first, texts[o.first] = std::string(recover_size(o.first.second), '\0')) && done;
        if (together)
            done = ok(VELOC_Recover_all_of()) && done;
        else
            done = done && ok(VELOC_Recover_selective(mode, chosen.data(), static_cast<int>(chosen.size())));
        for (auto &t : texts)
            done = place(t.first, none) && done;
        for (auto &t : texts)
            if (done) {
                std::istringstream in(t.second, std::ios::in | std::ios::binary);
                done = objects[t.first].read(in);
            }
        return done;
    }

    bool restart_end(bool success) override { return ok(VELOC_Restart_end(success)); }

    ~client() override { VELOC_Finalize(1); }
};

} // namespace goscr

/* Begins a session. The caller deletes the client, before MPI_Finalize; that ends the session. Returns nullptr if it has failed. */
inline client_t *get_client(unsigned int id, const std::string &cfg_file)
{
    return VELOC_Init_single(id, cfg_file.c_str()) == VELOC_SUCCESS ? new goscr::client() : nullptr;
}
inline client_t *get_client(MPI_Comm comm, const std::string &cfg_file)
{
    return VELOC_Init(comm, cfg_file.c_str()) == VELOC_SUCCESS ? new goscr::client() : nullptr;
}

} // namespace veloc

#endif
