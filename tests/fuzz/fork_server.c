// Preloaded into fusewise, turns it into a server: each request is one run of main() in a forked child, which saves
// the dynamic linker and the constructors of every run. See mutation.py.
//
// A request is the number of bytes that follow (4 bytes), then the paths of folder, standard output and standard
// error and the arguments, each with a NUL behind it. Answers are the child's process id, and when it has ended
// its wait status, its processor time in microseconds and its memory in KiB, 8 bytes each.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*Main)(int, char**, char**);
typedef int (*StartMain)(Main, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);

enum { kRequests = 198, kAnswers = 199, kMaxArguments = 64 };

static Main program;

static int read_all(void* into, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(kRequests, (char*)into + done, size - done);
    if (got <= 0) return 0;
    done += (size_t)got;
  }
  return 1;
}

static void answer(int64_t number) {
  if (write(kAnswers, &number, sizeof number) != sizeof number) _exit(1);
}

static void reopen(int descriptor, const char* path, int flags) {
  const int opened = open(path, flags, 0600);
  if (opened < 0 || dup2(opened, descriptor) < 0) _exit(120);
  close(opened);
}

static void run(char* request, char* end, char* name, char** environment) {
  char* words[kMaxArguments + 4];
  int count = 0;
  for (char* word = request; word < end; word += strlen(word) + 1) {
    if (count == kMaxArguments + 3) _exit(121);
    words[count++] = word;
  }
  words[count] = NULL;
  setpgid(0, 0);
  close(kRequests);
  close(kAnswers);
  reopen(0, "/dev/null", O_RDONLY);
  reopen(1, words[1], O_WRONLY | O_CREAT | O_TRUNC);
  reopen(2, words[2], O_WRONLY | O_CREAT | O_TRUNC);
  if (chdir(words[0]) != 0) _exit(122);
  words[2] = name;
  exit(program(count - 2, words + 2, environment));
}

static int serve(int argc, char** argv, char** environment) {
  (void)argc;
  uint32_t size = 0;
  while (read_all(&size, sizeof size)) {
    char* request = malloc(size);
    if (request == NULL || !read_all(request, size)) return 1;
    const pid_t child = fork();
    if (child == 0) run(request, request + size, argv[0], environment);
    free(request);
    if (child < 0) return 1;
    setpgid(child, child);
    answer(child);
    int status = 0;
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child) return 1;
    answer(status);
    answer((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec);
    answer(usage.ru_maxrss);
  }
  return 0;
}

/// What the C library calls main() by; programs that the program starts are not servers.
int __libc_start_main(Main main_function, int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*end_of_linker)(void), void* stack) {
  const StartMain real = (StartMain)dlsym(RTLD_NEXT, "__libc_start_main");
  unsetenv("LD_PRELOAD");
  unsetenv("LD_BIND_NOW");
  program = main_function;
  return real(serve, argc, argv, init, fini, end_of_linker, stack);
}
