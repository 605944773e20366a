// SPDX-License-Identifier: MIT
//
// A C++ program that uses the allocator as programs do: over-aligned and sized new and delete,
// containers, exceptions, blocks that another thread frees, fork. Prints "ok", or what is wrong.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void require(bool condition, const char *what) {
    if (!condition) {
        std::printf("wrong: %s\n", what);
        std::fflush(stdout);
        std::_Exit(1);
    }
}

bool aligned(const void *block, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

template <std::size_t Alignment> struct alignas(Alignment) Wide {
    unsigned char bytes[3 * Alignment];
};

template <std::size_t Alignment> void over_aligned() {
    std::vector<std::unique_ptr<Wide<Alignment>>> singles;
    std::vector<std::unique_ptr<Wide<Alignment>[]>> arrays;
    for (int i = 0; i < 100; i++) {
        singles.emplace_back(new Wide<Alignment>);
        arrays.emplace_back(new (std::nothrow) Wide<Alignment>[5]);
        require(aligned(singles.back().get(), Alignment), "alignment of new");
        require(aligned(arrays.back().get(), Alignment), "alignment of new[]");
        std::memset(singles.back()->bytes, i, sizeof(Wide<Alignment>));
    }
    for (int i = 0; i < 100; i++)
        for (unsigned char byte : singles[static_cast<std::size_t>(i)]->bytes)
            require(byte == i, "content of an over-aligned object");
}

void operators() {
    for (std::size_t size = 1; size < 300000; size = size * 3 / 2 + 1) {
        void *plain = ::operator new(size);
        void *array = ::operator new[](size);
        void *nothrow = ::operator new(size, std::nothrow);
        void *wide = ::operator new(size, std::align_val_t{128});
        require(aligned(plain, 16) || size < 16, "alignment of operator new");
        require(aligned(wide, 128), "alignment of aligned operator new");
        require(malloc_usable_size(plain) >= size, "usable size");
        for (void *block : {plain, array, nothrow, wide})
            std::memset(block, 0xa5, size);
        ::operator delete(plain, size);
        ::operator delete[](array, size);
        ::operator delete(nothrow, std::nothrow);
        ::operator delete(wide, size, std::align_val_t{128});
    }
}

void c_functions() {
    std::mt19937 random(42);
    for (int i = 0; i < 20000; i++) {
        std::size_t size = random() % (i % 100 == 0 ? 3u << 20 : 5000) + 1;
        auto *block = static_cast<unsigned char *>(std::calloc(1, size));
        require(block != nullptr, "calloc");
        require(std::all_of(block, block + size, [](unsigned char b) { return b == 0; }),
                "calloc returned bytes that are not zero");
        std::memset(block, 0x5a, size);
        std::size_t bigger = size + random() % 3000;
        block = static_cast<unsigned char *>(std::realloc(block, bigger));
        require(std::all_of(block, block + size, [](unsigned char b) { return b == 0x5a; }),
                "realloc lost content");
        std::free(block);
    }
}

void exceptions() {
    int caught = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            throw std::runtime_error(std::string(static_cast<std::size_t>(i), 'x'));
        } catch (const std::exception &error) {
            caught += std::strlen(error.what()) == static_cast<std::size_t>(i);
        }
    }
    require(caught == 1000, "exceptions");
}

// Each thread frees what another one allocated, and ends while its own blocks live on.
void threads() {
    std::mutex mutex;
    std::vector<std::string *> shared;
    auto work = [&](unsigned seed) {
        std::mt19937 random(seed);
        std::map<unsigned, std::string> local;
        for (int i = 0; i < 20000; i++) {
            local[random() % 500] = std::string(random() % 400, static_cast<char>('a' + seed % 26));
            auto *fresh = new std::string(random() % 2000, 'z');
            std::string *other = nullptr;
            {
                std::lock_guard lock(mutex);
                shared.push_back(fresh);
                if (shared.size() > 100) {
                    std::swap(shared[random() % shared.size()], shared.back());
                    other = shared.back();
                    shared.pop_back();
                }
            }
            if (other)
                require(other->find_first_not_of('z') == std::string::npos, "shared content");
            delete other;
        }
    };
    for (unsigned generation = 0; generation < 3; generation++) {
        std::vector<std::thread> running;
        for (unsigned t = 0; t < 4; t++)
            running.emplace_back(work, generation * 4 + t + 1);
        for (auto &thread : running)
            thread.join();
    }
    for (auto *left : shared)
        delete left;
}

// Children use the heap that they inherit, and start threads of their own.
void forks() {
    auto inherited = std::make_unique<std::string>(10000, 'p');
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        require(child >= 0, "fork");
        if (child == 0) {
            inherited->append(5000, 'p');
            std::thread([] { operators(); }).join();
            inherited.reset();
            std::_Exit(7);
        }
        int status = 0;
        require(waitpid(child, &status, 0) == child, "waitpid");
        require(WIFEXITED(status) && WEXITSTATUS(status) == 7, "end of a child");
    }
    require(inherited->size() == 10000, "content after fork");
}

} // namespace

int main() {
    over_aligned<32>();
    over_aligned<64>();
    over_aligned<512>();
    over_aligned<4096>();
    operators();
    c_functions();
    exceptions();
    threads();
    forks();
    std::puts("ok");
}
