/* A storm of approvals: generator PORT IN_FLIGHT BEFORE AFTER
 *
 * Each line of standard input is "ADDRESS EVENT". For each one a connection is made from ADDRESS to 127.0.0.1:PORT
 * that sends BEFORE, EVENT and AFTER, reads the beginning of the answer, and is closed. IN_FLIGHT connections are
 * open at a time. Prints the number of requests, the seconds they took, the number of those that were not answered
 * with 200, and the status line of the first of these. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENT_SIZE 64
#define REQUEST_SIZE 1024
#define PATIENCE_MS 60000

static const char GOOD[] = "HTTP/1.1 200";

struct approval {
    struct in_addr address;
    char event[EVENT_SIZE];
};

struct connection {
    int fd;
    int is_sent;
    const struct approval *approval;
};

static struct approval *approvals;
static size_t total, begun, answered, refused;
static char first_refusal[128];
static struct sockaddr_in server = {.sin_family = AF_INET};
static const char *before, *after;
static int poll_fd;

static void die(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("generator: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

static void read_approvals(void)
{
    char address[INET_ADDRSTRLEN], event[EVENT_SIZE];
    size_t room = 0;
    int found;
    while ((found = scanf("%15s %63s", address, event)) == 2) {
        if (total == room) {
            room = room ? room * 2 : 1024;
            approvals = realloc(approvals, room * sizeof *approvals);
            if (!approvals)
                die("no memory for %zu approvals", room);
        }
        if (inet_pton(AF_INET, address, &approvals[total].address) != 1)
            die("line %zu: %s is not an IPv4 address", total + 1, address);
        strcpy(approvals[total++].event, event);
    }
    if (found != EOF)
        die("line %zu is not ADDRESS EVENT", total + 1);
}

/* Begin to connect for the next approval; it is sent when the connection can be written to. */
static void connect_next(struct connection *connection)
{
    const struct approval *approval = &approvals[begun++];
    struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr = approval->address};
    /* Edge-triggered, so that one registration serves both writing and reading. */
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0)
        die("no socket: %s", strerror(errno));
    /* The port is chosen when the destination is known. */
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes) < 0
        || bind(fd, (struct sockaddr *)&source, sizeof source) < 0)
        die("%s cannot be used as source address: %s", inet_ntoa(approval->address), strerror(errno));
    if (connect(fd, (struct sockaddr *)&server, sizeof server) < 0 && errno != EINPROGRESS)
        die("no connection to port %d: %s", ntohs(server.sin_port), strerror(errno));
    *connection = (struct connection){.fd = fd, .approval = approval};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wanted) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

static void send_request(struct connection *connection)
{
    char request[REQUEST_SIZE];
    int length = snprintf(request, sizeof request, "%s%s%s", before, connection->approval->event, after);
    if (length >= (int)sizeof request)
        die("a request is longer than %d bytes", REQUEST_SIZE);
    /* A fresh connection has room for all of it. */
    if (send(connection->fd, request, length, MSG_NOSIGNAL) != length)
        die("a request to port %d was not sent: %s", ntohs(server.sin_port), strerror(errno));
    connection->is_sent = 1;
}

/* Return whether the answer has come, and the connection is closed. */
static int receive(struct connection *connection)
{
    char answer[4096];
    ssize_t length = recv(connection->fd, answer, sizeof answer - 1, 0);
    if (length < 0 && errno == EAGAIN)
        return 0;
    if (length < 0)
        die("no answer for event %s: %s", connection->approval->event, strerror(errno));
    if (length < (ssize_t)sizeof GOOD - 1)
        die("event %s: the connection was closed after %zd bytes", connection->approval->event, length);
    answer[length] = '\0';
    if (strncmp(answer, GOOD, sizeof GOOD - 1) != 0) {
        if (!refused)
            snprintf(first_refusal, sizeof first_refusal, " %.*s", (int)strcspn(answer, "\r\n"), answer);
        refused++;
    }
    close(connection->fd);
    answered++;
    return 1;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
    if (count != 5)
        die("usage: generator PORT IN_FLIGHT BEFORE AFTER");
    size_t in_flight = strtoul(arguments[2], NULL, 10);
    server.sin_port = htons(atoi(arguments[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    before = arguments[3];
    after = arguments[4];
    read_approvals();

    struct connection *connections = calloc(in_flight, sizeof *connections);
    struct epoll_event *events = calloc(in_flight, sizeof *events);
    poll_fd = epoll_create1(0);
    if (!in_flight || !connections || !events || poll_fd < 0)
        die("%s connections at a time are not possible", arguments[2]);

    double began = seconds_now();
    while (begun < total && begun < in_flight)
        connect_next(&connections[begun]);
    while (answered < total) {
        int ready = epoll_wait(poll_fd, events, in_flight, PATIENCE_MS);
        if (ready <= 0)
            die("no answer within %d s: %zu of %zu approvals were answered", PATIENCE_MS / 1000, answered, total);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!connection->is_sent)
                send_request(connection);
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP) && receive(connection) && begun < total)
                connect_next(connection);
        }
    }
    printf("%zu %.6f %zu%s\n", total, seconds_now() - began, refused, first_refusal);
    return 0;
}
