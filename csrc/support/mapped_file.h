// Files as the loader needs them: positioned reads, a read-only mapping whose pages are touched without risking a
// signal, and memory to read into. With system.h the only place that knows the operating system.
#pragma once

#include "support/job.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

namespace pyspec {

// Adds up finished bytes of a long read, stores the fraction in the job and stops it when cancelled. job may be null.
class LoadProgress {
public:
    LoadProgress(Job * job, uint64_t total_bytes) : job_(job), total_(total_bytes) {}
    // Throws CANCELLED. Call between chunks.
    void advance(uint64_t bytes);

private:
    Job * job_;
    uint64_t total_;
    uint64_t done_ = 0;
};

// A regular file opened for reading. Movable, closes itself. Reads may come from several threads.
class InputFile {
public:
    // Throws FILE_FORMAT when the path is missing, a directory, not a regular file or not readable.
    static InputFile open(const std::string & path);
    InputFile(InputFile && other) noexcept;
    InputFile & operator=(InputFile && other) noexcept;
    ~InputFile();

    const std::string & path() const { return path_; }
    uint64_t size() const { return size_; } // when it was opened
    uint64_t current_size() const;          // now; one system call
    // Reads up to n bytes; returns fewer only at the end of the file. Throws FILE_FORMAT on an input error.
    size_t read_some(uint64_t offset, void * dst, size_t n) const;
    // Reads exactly n bytes in chunks; throws FILE_FORMAT when the file ends earlier, CANCELLED through progress.
    void read_exactly(uint64_t offset, void * dst, size_t n, LoadProgress & progress) const;

private:
    friend class FileMapping;
    InputFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

    std::string path_;
    int fd_        = -1;
    uint64_t size_ = 0;
};

// A read-only shared mapping of a whole file, [0, file.size()). Movable, unmaps itself.
class FileMapping {
public:
    // An invalid mapping (valid() is false) when the file system cannot map files; the caller then reads instead.
    // Throws OUT_OF_MEMORY when the address space is used up.
    static FileMapping map(const InputFile & file);
    FileMapping() = default;
    FileMapping(FileMapping && other) noexcept;
    FileMapping & operator=(FileMapping && other) noexcept;
    ~FileMapping();

    bool valid() const { return base_ != nullptr; }
    void * base() const { return base_; }
    size_t size() const { return size_; }

    // Brings the bytes [begin, end) into memory, checking that each page exists, without ever touching a page that does
    // not: a file cut short meanwhile is FILE_FORMAT, not a bus error.
    void populate(const InputFile & file, uint64_t begin, uint64_t end, LoadProgress & progress) const;

private:
    void * base_ = nullptr;
    size_t size_ = 0;
};

// Memory aligned to 64 bytes; large ones to huge pages, which are asked for.
class AlignedBuffer {
public:
    AlignedBuffer() = default;
    // Throws OUT_OF_MEMORY. The content is not initialised.
    explicit AlignedBuffer(size_t size);

    void * data() const { return data_.get(); }
    size_t size() const { return size_; }

private:
    struct Release {
        std::align_val_t alignment;
        void operator()(void * p) const;
    };
    std::unique_ptr<void, Release> data_;
    size_t size_ = 0;
};

} // namespace pyspec
