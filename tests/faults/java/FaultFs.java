package org.apache.hadoop.fs;

import java.io.File;
import java.io.FileOutputStream;
import java.io.FilterOutputStream;
import java.io.IOError;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.URI;
import java.util.ArrayList;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * The local file system with one failing call: call number n of the armed kinds below a folder.
 *
 * "before" and "after" fail that call only, with an IOException; "crash before" and "crash after" fail it and all later
 * calls below the folder, with an Error that no caller handles; "exists after" reports that another writer created the
 * file, as a store does to a client that retries a request. One folder at a time. A call can also be blocked, once: see
 * block. The class is in Hadoop's package so that it can replace the file system that Hadoop caches for "file:".
 */
public class FaultFs extends LocalFileSystem {
    private static String folder = null;
    private static String kinds = "";
    private static int at = -1;
    private static String mode = "";
    private static boolean dead = false;
    private static ArrayList calls = new ArrayList();
    private static String blockedFolder = "";
    private static String blockedKind = "";
    private static String blockedSuffix = "";
    private static String gate = null;

    /**
     * Block the next call of this kind for a file below a folder with this name ending: it writes a line to the pipe
     * "gate.reached", and continues once the file "gate.go" exists. An interrupted thread fails instead.
     */
    public static synchronized void block(String below, String kind, String suffix, String at) {
        blockedFolder = below;
        blockedKind = kind;
        blockedSuffix = suffix;
        gate = at;
    }

    private static synchronized String gateOf(String kind, String place) {
        String here = gate;
        if (here == null || !kind.equals(blockedKind)) return null;
        if (!place.startsWith(blockedFolder) || !place.endsWith(blockedSuffix)) return null;
        gate = null;
        return here;
    }

    private static void waitAt(String here, String what) throws IOException {
        FileOutputStream told = new FileOutputStream(here + ".reached");
        told.write((what + "\n").getBytes());
        told.close();
        while (!new File(here + ".go").exists()) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted at " + what);
            }
        }
    }

    public static synchronized void arm(String below, String ofKinds, int call, String how) {
        folder = below;
        kinds = ofKinds;
        at = call;
        mode = how;
        dead = false;
        calls = new ArrayList();
    }

    /** One line for each counted call: its kind and its path below the folder. */
    public static synchronized String disarm() {
        StringBuilder told = new StringBuilder();
        for (int i = 0; i < calls.size(); i++) told.append((String) calls.get(i)).append("\n");
        folder = null;
        return told.toString();
    }

    public static FileSystem install(Configuration conf) throws IOException {
        FileSystem before = FileSystem.get(URI.create("file:///"), conf);
        FaultFs made = new FaultFs();
        made.initialize(URI.create("file:///"), conf);
        FileSystem.addFileSystemForTesting(URI.create("file:///"), conf, made);
        return before;
    }

    public static void restore(Configuration conf, FileSystem before) throws IOException {
        FileSystem.addFileSystemForTesting(URI.create("file:///"), conf, before);
    }

    /** The number of the call, -1 if it does not count. */
    private static int begin(String kind, Path path) throws IOException {
        String place = path.toUri().getPath();
        String here = gateOf(kind, place);
        if (here != null) waitAt(here, kind + " " + place);
        return count(kind, place);
    }

    private static synchronized int count(String kind, String place) throws IOException {
        if (folder == null || !place.startsWith(folder)) return -1;
        if (dead) throw new IOError(new IOException("the storage is gone: " + kind + " " + place));
        if (kinds.indexOf(kind) < 0) return -1;
        int call = calls.size();
        calls.add(kind + " " + place.substring(folder.length()));
        if (call == at && mode.endsWith("before")) fail(kind, place);
        return call;
    }

    private static synchronized void end(int call, String kind, Path path) throws IOException {
        if (call >= 0 && call == at && mode.endsWith("after")) fail(kind, path.toUri().getPath());
    }

    private static void fail(String kind, String place) throws IOException {
        IOException fault = new IOException("injected, " + mode + ": " + kind + " " + place);
        if (mode.startsWith("exists")) throw new FileAlreadyExistsException(place);
        if (!mode.startsWith("crash")) throw fault;
        dead = true;
        throw new IOError(fault);
    }

    public FSDataOutputStream create(Path f, FsPermission permission, boolean overwrite, int bufferSize,
            short replication, long blockSize, Progressable progress) throws IOException {
        int call = begin("create", f);
        FSDataOutputStream out =
            super.create(f, permission, overwrite, bufferSize, replication, blockSize, progress);
        end(call, "create", f);
        return new FSDataOutputStream(new Closing(out, f), null);
    }

    /** FileContext writes with this method. */
    protected FSDataOutputStream primitiveCreate(Path f, FsPermission permission, EnumSet flag, int bufferSize,
            short replication, long blockSize, Progressable progress, Options.ChecksumOpt checksum)
            throws IOException {
        int call = begin("create", f);
        FSDataOutputStream out = super.primitiveCreate(
            f, permission, flag, bufferSize, replication, blockSize, progress, checksum);
        end(call, "create", f);
        return new FSDataOutputStream(new Closing(out, f), null);
    }

    public FSDataInputStream open(Path f, int bufferSize) throws IOException {
        begin("open", f);
        return super.open(f, bufferSize);
    }

    public boolean rename(Path from, Path to) throws IOException {
        int call = begin("rename", to);
        boolean done = super.rename(from, to);
        end(call, "rename", to);
        return done;
    }

    /** FileContext renames with this method. */
    protected void rename(Path from, Path to, Options.Rename[] options) throws IOException {
        int call = begin("rename", to);
        super.rename(from, to, options);
        end(call, "rename", to);
    }

    public boolean delete(Path f, boolean recursive) throws IOException {
        int call = begin("delete", f);
        boolean done = super.delete(f, recursive);
        end(call, "delete", f);
        return done;
    }

    public FileStatus[] listStatus(Path f) throws IOException {
        begin("list", f);
        return super.listStatus(f);
    }

    public RemoteIterator listStatusIterator(Path f) throws IOException {
        begin("list", f);
        return super.listStatusIterator(f);
    }

    public RemoteIterator listLocatedStatus(Path f) throws IOException {
        begin("list", f);
        return super.listLocatedStatus(f);
    }

    public FileStatus getFileStatus(Path f) throws IOException {
        begin("status", f);
        return super.getFileStatus(f);
    }

    /** A close that fails before loses the buffered bytes; the file remains. */
    private static class Closing extends FilterOutputStream {
        private final Path path;
        private boolean closed = false;

        Closing(OutputStream out, Path path) {
            super(out);
            this.path = path;
        }

        public void write(byte[] bytes, int from, int count) throws IOException {
            out.write(bytes, from, count);
        }

        public void close() throws IOException {
            if (closed) return;
            closed = true;
            int call = begin("close", path);
            out.close();
            end(call, "close", path);
        }
    }
}
