#include "support/mapped_file.h"

#include "support/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pyspec {

namespace {

// Small enough that a slow disk (20 MB/s) still answers a cancel within 0.25 s, large enough that calls cost nothing.
constexpr uint64_t CHUNK_BYTES = 4u << 20;
// How far the kernel is asked to read ahead of the chunk being touched.
constexpr uint64_t READ_AHEAD_BYTES = 32u << 20;
constexpr size_t ALIGNMENT          = 64;
constexpr size_t HUGE_PAGE          = 2u << 20; // of x86-64 and most of ARM

std::string system_text(int error) {
    return std::generic_category().message(error);
}

[[noreturn]] void throw_open_error(const std::string & path, int error) {
    std::string reason;
    if (path.empty()) {
        reason = "the path is empty";
    } else if (error == ENOENT) {
        struct stat link;
        const bool dangling = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
        reason = dangling ? "is a link to a file that does not exist (was the downloaded file removed?)"
                          : "no such file (check the path; a relative path starts at the working directory)";
    } else if (error == EACCES || error == EPERM) {
        reason = "may not be read by this user (check the file's permissions)";
    } else {
        reason = "cannot be opened: " + system_text(error);
    }
    throw Error(PYSPEC_FILE_FORMAT, (path.empty() ? "model file" : path) + ": " + reason);
}

[[noreturn]] void throw_read_error(const std::string & path, uint64_t offset, int error) {
    throw Error(PYSPEC_FILE_FORMAT, format("%s: reading at byte %llu failed: %s", path.c_str(),
                                           static_cast<unsigned long long>(offset), system_text(error).c_str()));
}

[[noreturn]] void throw_shrunk(const std::string & path, uint64_t needed, uint64_t now) {
    throw Error(
        PYSPEC_FILE_FORMAT,
        format("%s: the file has become shorter while it was in use: bytes up to %llu are needed, it now has %llu. "
               "Do not overwrite or truncate a model that is loaded; download it again",
               path.c_str(), static_cast<unsigned long long>(needed), static_cast<unsigned long long>(now)));
}

} // namespace

void LoadProgress::advance(uint64_t bytes) {
    done_ += bytes;
    if (job_ == nullptr) return;
    if (total_ > 0) {
        job_->progress.store(std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)),
                             std::memory_order_relaxed);
    }
    check_cancelled(job_, "loading the model");
}

// ---------------------------------------------------------------------------------------------------------- InputFile

InputFile InputFile::open(const std::string & path) {
    // Non-blocking, so that a named pipe is refused instead of waited for; it changes nothing for regular files.
    int fd;
    do {
        fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) throw_open_error(path, errno);
    InputFile file(path, fd, 0);
    struct stat info;
    if (::fstat(fd, &info) != 0) throw_open_error(path, errno);
    if (S_ISDIR(info.st_mode)) {
        throw Error(PYSPEC_FILE_FORMAT, path + ": is a directory; give the path of the .gguf file inside it");
    }
    if (!S_ISREG(info.st_mode)) throw Error(PYSPEC_FILE_FORMAT, path + ": is not a regular file");
    file.size_ = static_cast<uint64_t>(info.st_size);
    return file;
}

InputFile::InputFile(InputFile && other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

InputFile & InputFile::operator=(InputFile && other) noexcept {
    if (this != &other) {
        if (fd_ >= 0) ::close(fd_);
        path_ = std::move(other.path_);
        fd_   = std::exchange(other.fd_, -1);
        size_ = other.size_;
    }
    return *this;
}

InputFile::~InputFile() {
    if (fd_ >= 0) ::close(fd_);
}

uint64_t InputFile::current_size() const {
    struct stat info;
    // A file that cannot be asked (a lost network share) is as unusable as one that has been emptied.
    return ::fstat(fd_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

size_t InputFile::read_some(uint64_t offset, void * dst, size_t n) const {
    size_t done = 0;
    while (done < n) {
        const size_t want = std::min<size_t>(n - done, 1u << 30); // the system call's own limit is near 2 GiB
        const ssize_t got = ::pread(fd_, static_cast<char *>(dst) + done, want, static_cast<off_t>(offset + done));
        if (got < 0) {
            if (errno == EINTR) continue;
            throw_read_error(path_, offset + done, errno);
        }
        if (got == 0) break;
        done += static_cast<size_t>(got);
    }
    return done;
}

void InputFile::read_exactly(uint64_t offset, void * dst, size_t n, LoadProgress & progress) const {
    progress.advance(0);
    for (size_t done = 0; done < n;) {
        const size_t want = std::min<size_t>(n - done, CHUNK_BYTES);
        if (read_some(offset + done, static_cast<char *>(dst) + done, want) != want) {
            throw_shrunk(path_, offset + n, current_size());
        }
        done += want;
        progress.advance(want);
    }
}

// -------------------------------------------------------------------------------------------------------- FileMapping

FileMapping FileMapping::map(const InputFile & file) {
    FileMapping mapping;
    if (file.size() == 0) return mapping;
    const auto size = static_cast<size_t>(file.size());
    void * base     = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd_, 0);
    if (base == MAP_FAILED) {
        if (errno == ENOMEM) {
            throw Error(PYSPEC_OUT_OF_MEMORY,
                        format("%s: mapping %s failed: no address space left (limit of this process?)",
                               file.path().c_str(), byte_size(size).c_str()));
        }
        return mapping;
    }
    mapping.base_ = base;
    mapping.size_ = size;
    return mapping;
}

FileMapping::FileMapping(FileMapping && other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileMapping & FileMapping::operator=(FileMapping && other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
}

FileMapping::~FileMapping() {
    if (base_ != nullptr) ::munmap(base_, size_);
}

void FileMapping::populate(const InputFile & file, uint64_t begin, uint64_t end, LoadProgress & progress) const {
    progress.advance(0);
    end             = std::min<uint64_t>(end, size_);
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    bool advise     = true;
    std::vector<char> scratch; // for kernels that cannot touch pages on request
    uint64_t ahead = begin;
    for (uint64_t at = begin; at < end;) {
        const uint64_t next = std::min<uint64_t>(end, (at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        if (ahead < next + READ_AHEAD_BYTES && ahead < end) {
            const uint64_t until = std::min(end, next + 2 * READ_AHEAD_BYTES);
            ::posix_fadvise(file.fd_, static_cast<off_t>(ahead), static_cast<off_t>(until - ahead),
                            POSIX_FADV_WILLNEED);
            ahead = until;
        }
        bool touched = false;
#ifdef MADV_POPULATE_READ
        while (advise) {
            const uint64_t first = at / page * page;
            if (::madvise(static_cast<char *>(base_) + first, next - first, MADV_POPULATE_READ) == 0) {
                touched = true;
                break;
            }
            const int error = errno;
            if (error == EINTR || error == EAGAIN) {
                progress.advance(0);
                continue;
            }
            if (error == EFAULT) { // where a load instruction would have been killed by SIGBUS
                const uint64_t now = file.current_size();
                if (now < end) throw_shrunk(file.path(), end, now);
                throw_read_error(file.path(), at, EIO);
            }
            if (error == ENOMEM) {
                throw Error(PYSPEC_OUT_OF_MEMORY, format("%s: no memory left while reading the mapped file (%s)",
                                                         file.path().c_str(), byte_size(size_).c_str()));
            }
            advise = false; // older kernel, or a mapping of a kind it refuses
        }
#endif
        if (!touched) {
            // Reading proves that the bytes exist and leaves them in the page cache; touching them is left to first
            // use.
            scratch.resize(CHUNK_BYTES);
            const auto want = static_cast<size_t>(next - at);
            if (file.read_some(at, scratch.data(), want) != want) throw_shrunk(file.path(), end, file.current_size());
        }
        progress.advance(next - at);
        at = next;
    }
    const uint64_t now = file.current_size();
    if (now < end) throw_shrunk(file.path(), end, now);
}

// ------------------------------------------------------------------------------------------------------ AlignedBuffer

AlignedBuffer::AlignedBuffer(size_t size) : size_(size) {
    const std::align_val_t alignment{size >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT};
    data_ = {::operator new(std::max<size_t>(size, 1), alignment, std::nothrow), Release{alignment}};
    if (!data_) throw Error(PYSPEC_OUT_OF_MEMORY, format("no memory for %s of weights", byte_size(size).c_str()));
#ifdef MADV_HUGEPAGE
    // Weights are read from end to end for every token: with small pages a good part of that time goes into finding
    // their addresses. Refusal costs speed only. The last, incomplete page stays small, so no memory is wasted.
    if (size >= HUGE_PAGE) (void)::madvise(data(), size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
}

void AlignedBuffer::Release::operator()(void * p) const {
    ::operator delete(p, alignment);
}

} // namespace pyspec
