// Stands before listen() in a process of a run: strangers connect to every socket that listens before anybody else can,
// and say something wrong, or nothing. $FUSEWISE_STRANGERS is the seed of how many
// they are and of what they say.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { most = 64, kinds = 6, patience_ms = 10000, descriptors = 1024 };

struct front {  // of collectives/transport/tcp/handshake.cpp
  char magic[8];
  uint64_t bytes;
};

static void say(int socket, unsigned* seed) {
  struct {
    struct front front;
    uint32_t words[100];
  } said = {.front = {.bytes = sizeof said.words}};
  memcpy(said.front.magic, "fusewise", sizeof said.front.magic);
  for (int i = 0; i < 100; ++i) said.words[i] = (uint32_t)rand_r(seed);
  const int kind = rand_r(seed) % kinds;
  size_t bytes = sizeof said;
  if (kind == 0) return;  // idle
  if (kind == 1) memcpy(said.front.magic, "GET / HT", sizeof said.front.magic);  // no handshake
  if (kind == 2) said.front.bytes = UINT64_MAX;  // no length
  if (kind == 3) said.words[0] = (uint32_t)rand_r(seed) % 4;  // no proof
  if (kind == 4) bytes = 1 + (size_t)rand_r(seed) % (sizeof said - 1);  // half of it
  if (kind == 5) shutdown(socket, SHUT_WR);  // leaves
  send(socket, &said, bytes, MSG_NOSIGNAL);
}

static void be_strangers(const struct sockaddr_storage* address, socklen_t size, int ready, unsigned seed) {
  prctl(PR_SET_NAME, "strangers");
  for (int fd = 0; fd < descriptors; ++fd)
    if (fd != ready) close(fd);
  struct pollfd sockets[most];
  const int count = 1 + rand_r(&seed) % most;
  for (int i = 0; i < count; ++i) {
    sockets[i] = (struct pollfd){.fd = socket(address->ss_family, SOCK_STREAM, 0), .events = POLLRDHUP};
    if (connect(sockets[i].fd, (const struct sockaddr*)address, size) == 0) say(sockets[i].fd, &seed);
  }
  close(ready);
  for (int left = count; left > 0;) {  // until the other side has closed all of them
    if (poll(sockets, (nfds_t)count, patience_ms) <= 0) break;
    for (int i = 0; i < count; ++i)
      if (sockets[i].revents != 0) {
        close(sockets[i].fd);
        sockets[i].fd = -1;
        --left;
      }
  }
  _exit(0);
}

int listen(int socket, int backlog) {
  int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
  const int result = real(socket, backlog);
  const char* seed = getenv("FUSEWISE_STRANGERS");
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  int ready[2];
  if (result != 0 || seed == NULL || getsockname(socket, (struct sockaddr*)&address, &size) != 0 || pipe(ready) != 0)
    return result;
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) be_strangers(&address, size, ready[1], (unsigned)atoi(seed));
    _exit(0);
  }
  close(ready[1]);
  char none;
  while (read(ready[0], &none, 1) > 0) {
  }
  close(ready[0]);
  if (child > 0) waitpid(child, NULL, 0);
  return result;
}
