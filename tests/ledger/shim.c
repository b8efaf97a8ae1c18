/* Stands between a process and its files, on paths that contain SHIM_MATCH: counts writes and syncs, lets the k-th of
   them fail, or cuts the power there, which takes back every write that was not synced and ends the process.
   SHIM_COUNTER names a file that the counts of several processes are added up in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OFF, EIO_, ENOSPC_, SHORT, KILL_BEFORE, KILL_AFTER, POWER };
enum { WRITE, SYNC, TRUNCATE };
struct undo { dev_t dev; ino_t ino; char *path; off_t offset; off_t size; size_t length; char *old; struct undo *next; };

static struct { long calls; long syncs; long writes; } own, *count = &own;
static int mode = OFF;
static long target = -1, step = 0;
static struct undo *log_;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static ssize_t (*write_)(int, const void *, size_t);
static ssize_t (*pwrite_)(int, const void *, size_t, off_t);
static int (*fsync_)(int), (*fdatasync_)(int), (*ftruncate_)(int, off_t);

__attribute__((constructor)) static void start(void) {
    write_ = dlsym(RTLD_NEXT, "write");
    pwrite_ = dlsym(RTLD_NEXT, "pwrite64");
    fsync_ = dlsym(RTLD_NEXT, "fsync");
    fdatasync_ = dlsym(RTLD_NEXT, "fdatasync");
    ftruncate_ = dlsym(RTLD_NEXT, "ftruncate64");
    const char *shared = getenv("SHIM_COUNTER");
    if (shared) {
        int fd = open(shared, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0 && ftruncate_(fd, sizeof own) == 0) {
            void *map = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (map != MAP_FAILED) count = map;
        }
        if (fd >= 0) close(fd);
    }
}

void shim_arm(int how, long at) { mode = how; target = at; __atomic_store_n(&step, 0, __ATOMIC_SEQ_CST); }
long shim_steps(void) { return __atomic_load_n(&step, __ATOMIC_SEQ_CST); }
long shim_syncs(void) { return __atomic_load_n(&count->syncs, __ATOMIC_SEQ_CST); }

static int path_of(int fd, char *path, size_t room) {
    const char *match = getenv("SHIM_MATCH");
    char link[64] = "/proc/self/fd/";
    if (!match) return 0;
    char digits[16]; int n = 0, m = fd;
    do { digits[n++] = '0' + m % 10; m /= 10; } while (m);
    char *end = link + strlen(link);
    while (n) *end++ = digits[--n];
    *end = 0;
    ssize_t got = readlink(link, path, room - 1);
    if (got <= 0) return 0;
    path[got] = 0;
    return strstr(path, match) != NULL;
}

static void remember(int fd, const char *path, off_t offset, size_t length) {
    struct stat st;
    if (strstr(path, "-shm") || fstat(fd, &st) || !S_ISREG(st.st_mode)) return;
    struct undo *u = calloc(1, sizeof *u);
    u->dev = st.st_dev; u->ino = st.st_ino; u->path = strdup(path); u->offset = offset; u->size = st.st_size;
    u->old = malloc(length + 1);
    int reader = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = reader >= 0 ? pread(reader, u->old, length, offset) : 0;
    if (reader >= 0) close(reader);
    u->length = got > 0 ? got : 0;
    pthread_mutex_lock(&guard); u->next = log_; log_ = u; pthread_mutex_unlock(&guard);
}

static void forget(int fd) {
    struct stat st;
    if (fstat(fd, &st)) return;
    pthread_mutex_lock(&guard);
    for (struct undo **u = &log_; *u;) {
        if ((*u)->ino == st.st_ino && (*u)->dev == st.st_dev) *u = (*u)->next; else u = &(*u)->next;
    }
    pthread_mutex_unlock(&guard);
}

static void cut_the_power(void) {
    pthread_mutex_lock(&guard);
    for (struct undo *u = log_; u; u = u->next) {
        int fd = open(u->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (u->length) (void)!pwrite_(fd, u->old, u->length, u->offset);
        (void)!ftruncate_(fd, u->size);
        close(fd);
    }
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Returns 0 to go on, -1 to fail, 1 to write half. */
static int meet(int fd, int kind, off_t offset, size_t length) {
    char path[4096];
    int saved = errno;
    if (!path_of(fd, path, sizeof path)) { errno = saved; return 0; }
    __atomic_add_fetch(&count->calls, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(kind == SYNC ? &count->syncs : &count->writes, 1, __ATOMIC_SEQ_CST);
    long now = __atomic_add_fetch(&step, 1, __ATOMIC_SEQ_CST);
    if (mode == OFF) { errno = saved; return 0; }
    if (now == target) {
        if (mode == KILL_BEFORE) { kill(getpid(), SIGKILL); for (;;) pause(); }
        if (mode == POWER) cut_the_power();
        if (mode == EIO_ || (mode == SHORT && kind != WRITE)) { errno = EIO; return -1; }
        if (mode == ENOSPC_ && kind != SYNC) { errno = ENOSPC; return -1; }
        if (mode == SHORT && length > 1) { errno = saved; return 1; }
    }
    if (mode == KILL_AFTER && now == target + 1) { kill(getpid(), SIGKILL); for (;;) pause(); }
    if (mode == POWER && kind == WRITE) remember(fd, path, offset, length);
    if (mode == POWER && kind == SYNC) forget(fd);
    errno = saved;
    return 0;
}

ssize_t write(int fd, const void *data, size_t length) {
    int met = meet(fd, WRITE, lseek(fd, 0, SEEK_CUR), length);
    return met < 0 ? -1 : write_(fd, data, met ? length / 2 : length);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) {
    int met = meet(fd, WRITE, offset, length);
    return met < 0 ? -1 : pwrite_(fd, data, met ? length / 2 : length, offset);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return pwrite64(fd, data, length, offset); }
int fsync(int fd) { return meet(fd, SYNC, 0, 0) < 0 ? -1 : fsync_(fd); }
int fdatasync(int fd) { return meet(fd, SYNC, 0, 0) < 0 ? -1 : fdatasync_(fd); }
int ftruncate64(int fd, off_t size) { return meet(fd, TRUNCATE, 0, 0) < 0 ? -1 : ftruncate_(fd, size); }
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
