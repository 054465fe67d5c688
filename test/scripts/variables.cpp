// A process without a communicator, by VELOC's C++ interface: memory, and objects that it serializes.
//
//   variables_cpp ID CONFIG first|again

#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>

#include "veloc.hpp"

static int wrong;

static void check(bool right, const std::string &what)
{
    if (!right) {
        std::cout << "WRONG " << what << std::endl;
        wrong = 1;
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const unsigned id = static_cast<unsigned>(std::stoul(argv[1]));
    veloc::client_t *client = veloc::get_client(id, argv[2]);
    if (client == nullptr)
        return 3;
    std::map<std::string, int> table;
    auto write = [&table](std::ostream &out) {
        for (auto &e : table)
            out << e.first << ' ' << e.second << '\n';
    };
    auto read = [&table](std::istream &in) {
        std::string key;
        int value;
        table.clear();
        while (in >> key >> value)
            table[key] = value;
        return in.eof();
    };
    int number = 0, observed = 0;
    client->register_observer(VELOC_OBSERVE_CKPT_END, [&observed](const std::string &name, int version) { observed += name == "one" ? version : 0; });
    check(client->mem_protect(0, &number, 1, sizeof number, "one"), "mem_protect");
    check(client->mem_protect(1, write, read, "one"), "mem_protect of an object");
    check(client->mem_protect(2, write, read), "mem_protect for all names");

    int start = client->restart_test("one", 0);
    if (std::string(argv[3]) == "again") {
        check(start == 7 && client->restart("one", 7), "restart");
        check(number == 100 + static_cast<int>(id) && table.size() == 2 && table["b"] == 2, "values");
        check(client->restart_begin("one", 6) && client->recover_mem(VELOC_RECOVER_SOME, {1}) && client->restart_end(true), "an older version");
        check(number == 100 + static_cast<int>(id) && table.size() == 1 && table["a"] == 1, "values of the older version");
    } else
        check(start == VELOC_FAILURE, "restart_test");

    number = 100 + static_cast<int>(id);
    table = {{"a", 1}};
    check(client->checkpoint("one", 6), "checkpoint");
    table["b"] = 2;
    check(client->checkpoint_begin("one", 7), "checkpoint_begin");
    check(!client->route_file("").empty(), "route_file");
    check(client->checkpoint_mem(VELOC_CKPT_ALL, {}) && client->checkpoint_end(true) && observed == 13, "checkpoint in parts");
    check(client->checkpoint("two", 1), "checkpoint of another name");
    number = 0;
    table.clear();
    check(client->restart("two", 1) && table.size() == 2 && number == 0, "restart of another name");
    check(client->restart("one", 7) && client->recover_size(1) == 0 && number == 100 + static_cast<int>(id) && table["b"] == 2, "restart in the run");
    check(client->checkpoint_wait() && client->checkpoint_finished(), "wait");
    check(client->mem_unprotect(1, "one") && !client->restart("one", 7), "an object that is not protected any more");
    client->mem_clear("one");

    /* An object of all names, and a variable of one name with the same id. */
    int own = 1;
    check(client->mem_protect(2, &own, 1, sizeof own, "own") && client->checkpoint("own", 1), "a group of its own");
    own = 0;
    table = {{"kept", 1}};
    check(client->restart("own", 1) && own == 1 && table.size() == 1 && table["kept"] == 1, "... leaves the object of all names alone");

    std::string text;
    bool bad = false, throws = false;
    auto put = [&](std::ostream &out) {
        if (throws)
            throw std::runtime_error("a serializer");
        out << text;
        if (bad)
            out.setstate(std::ios::failbit);
    };
    auto get = [&](std::istream &in) {
        if (throws)
            throw std::runtime_error("a deserializer");
        text.assign(std::istreambuf_iterator<char>(in), {});
        return true;
    };
    check(client->mem_protect(3, put, get, "text") && client->checkpoint("text", 1), "an object that writes nothing");
    text = "something";
    check(client->restart("text", 1) && text.empty(), "... is empty after a restart");
    bad = true;
    check(!client->checkpoint("text", 2), "a stream that has failed");
    bad = false;
    throws = true;
    bool caught = false;
    try {
        client->checkpoint("text", 3);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    throws = false;
    check(caught && client->checkpoint("text", 4) && client->restart_test("text", 0) == 4, "an exception ends the checkpoint");
    throws = true;
    caught = false;
    try {
        client->restart("text", 4);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    throws = false;
    check(caught && client->checkpoint("text", 5) && client->restart("text", 5), "... and a restart");
    delete client;
    std::cout << (wrong ? "end with errors" : "end right") << std::endl;
    return wrong;
}
