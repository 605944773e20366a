import java.lang.reflect.Field;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

/**
 * A server under soak that works in native memory: blocks of the C library (as JNI code has them), direct buffers,
 * zlib, and a thread for each connection. It speaks as soak_threads does.
 *
 * SPDX-License-Identifier: MIT
 */
public final class Soak {
    private static final int PLACES = 2000;
    private static final Unsafe UNSAFE = unsafe();
    private static final AtomicReferenceArray<Block> SHELF = new AtomicReferenceArray<>(PLACES);

    private record Block(long address, int bytes, long key) {
        static Block make(Random random) {
            int bytes = 16 + random.nextInt(1 << 4 + random.nextInt(14));
            Block block = new Block(UNSAFE.allocateMemory(bytes), bytes, random.nextLong());
            for (int at = 0; at + 8 <= bytes; at += 64) {
                UNSAFE.putLong(block.address + at, block.key + at);
            }
            return block;
        }

        Block resized(Random random) {
            int size = 16 + random.nextInt(1 << 4 + random.nextInt(14));
            Block moved = new Block(UNSAFE.reallocateMemory(address, size), size, key);
            moved.check(Math.min(size, bytes));
            for (int at = 0; at + 8 <= size; at += 64) {
                UNSAFE.putLong(moved.address + at, key + at);
            }
            return moved;
        }

        void check(int length) {
            for (int at = 0; at + 8 <= length; at += 64) {
                if (UNSAFE.getLong(address + at) != key + at) {
                    throw new IllegalStateException("a native block is not what its owner left in it");
                }
            }
        }

        void release() {
            check(bytes);
            UNSAFE.freeMemory(address);
        }
    }

    private static Unsafe unsafe() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void put(int place, Block block) {
        Block before = SHELF.getAndSet(place, block);
        if (before != null) {
            before.release();
        }
    }

    private static void churn(Random random) {
        for (int i = 0; i < 100; i++) {
            int place = random.nextInt(PLACES);
            Block taken = random.nextInt(4) == 0 ? SHELF.getAndSet(place, null) : null;
            put(place, taken == null ? Block.make(random) : taken.resized(random));
        }
    }

    private static long squeeze(long seed) throws Exception {
        Random random = new Random(seed);
        byte[] text = new byte[40000];
        for (int i = 0; i < text.length; i++) {
            text[i] = (byte) ('a' + random.nextInt(6));
        }
        ByteBuffer direct = ByteBuffer.allocateDirect(text.length);
        direct.put(text).flip();
        Deflater deflater = new Deflater(6);
        deflater.setInput(direct);
        deflater.finish();
        ByteBuffer packed = ByteBuffer.allocateDirect(text.length);
        deflater.deflate(packed);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(packed.flip());
        byte[] back = new byte[text.length];
        inflater.inflate(back);
        inflater.end();
        CRC32 crc = new CRC32();
        crc.update(back);
        return crc.getValue();
    }

    private static long work(long seed) throws Exception {
        churn(new Random());
        if (seed % 4 == 1) {
            Thread[] threads = new Thread[3];
            for (int i = 0; i < threads.length; i++) {
                threads[i] = new Thread(() -> churn(new Random()));
                threads[i].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
        return squeeze(seed);
    }

    private static String answer(String request) throws Exception {
        try {
            if (request.startsWith("work ")) {
                return "ok " + Long.toHexString(work(Long.parseLong(request.substring(5))));
            }
            for (int i = 0; i < PLACES; i++) {
                put(i, null);
            }
            System.gc(); // direct buffers are freed after their owners
            return "ok 0";
        } catch (OutOfMemoryError error) {
            return "refused";
        } catch (IllegalStateException error) {
            return "damaged " + error.getMessage();
        }
    }

    private static void serve(SocketChannel channel) {
        try (channel) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(Channels.newInputStream(channel)));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.equals("quit")) {
                    System.exit(0);
                }
                channel.write(ByteBuffer.wrap((answer(line) + "\n").getBytes(StandardCharsets.UTF_8)));
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    public static void main(String[] arguments) throws Exception {
        ServerSocketChannel listening = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listening.bind(UnixDomainSocketAddress.of(arguments[0]));
        while (true) {
            SocketChannel channel = listening.accept();
            new Thread(() -> serve(channel)).start();
        }
    }
}
