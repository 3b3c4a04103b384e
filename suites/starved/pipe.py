"""A pipe of so many bytes a second, each way, for all connections together: pipe.py BYTES_PER_S PORT SERVER_PORT"""
import socket, sys, threading, time

rate, port, server = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
free, locks = [0.0, 0.0], [threading.Lock(), threading.Lock()]


def carry(source, sink, way):
    try:
        while data := source.recv(1024):
            with locks[way]:
                free[way] = max(free[way], time.monotonic()) + len(data) / rate
                until = free[way]
            time.sleep(max(0.0, until - time.monotonic()))
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


listener = socket.create_server(("127.0.0.1", port), backlog=512)
while True:
    client, _ = listener.accept()
    behind = socket.create_connection(("127.0.0.1", server))
    for end in (client, behind):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for way, ends in enumerate(((client, behind), (behind, client))):
        threading.Thread(target=carry, args=(*ends, way), daemon=True).start()
