def corethreads(data):
    threads = data["threads"]

    def number_of(value):
        """An address or an id, given as a number or as a text."""
        if isinstance(value, gdb.Value):
            if value.type.strip_typedefs().code in (gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_PTR):
                value = value.string()
            else:
                value = int(value)
        try:
            return int(value) if isinstance(value, int) else int(value, 0)
        except ValueError:
            raise gdb.GdbError("%s is neither the id of a thread nor the address of a descriptor" % value)

    def called(thread):
        """A thread, for people."""
        if thread["tid"] is not None:
            return "thread %d" % thread["tid"]
        return "the %s thread %s" % (thread["state"], thread["pthread"])

    def find_thread(number):
        for i, thread in enumerate(threads):
            if thread["tid"] == number or thread["pthread"] and int(thread["pthread"], 16) == number:
                return i
        raise gdb.GdbError("corethreads saw no thread or descriptor %d (0x%x) in %s" % (number, number, data["core"]))

    def selected_thread():
        thread = gdb.selected_thread()
        if thread is None:
            raise gdb.GdbError("no thread is selected; the core is not loaded")
        pid, lwp, _ = thread.ptid
        return find_thread(lwp or pid)

    def base(path):
        return path.rsplit("/", 1)[-1]

    def untagged(name):
        """A name without the tags of ABIs, which stand in no source."""
        return re.sub(r"\[abi:[^]]*\]", "", name)

    def find_variable(asked):
        """The variable of a name: as in the symbol table, as in source, or
        its last parts; FILE:NAME picks one of several modules."""
        module, name = None, asked
        head, colon, tail = asked.partition(":")
        if colon and not tail.startswith(":"):
            module, name = head, tail
        all = [v for v in data["variables"] if module in (None, base(data["modules"][v["module"]]["name"]))]
        for matches in (
            lambda v: v["linkage"] == name,
            lambda v: v["name"] == name,
            lambda v: v["name"].endswith("::" + name),
            lambda v: ("::" + untagged(v["name"])).endswith("::" + name),
        ):
            found = [v for v in all if matches(v)]
            if module is None:
                # Of one name in several modules, the one that code uses.
                found = [v for v in found if v["bound"]] or found
            if len(found) == 1:
                return found[0]
            if found:
                names = sorted("%s:%s" % (base(data["modules"][v["module"]]["name"]), v["linkage"]) for v in found)
                raise gdb.GdbError("there are several: " + ", ".join(names))
        raise gdb.GdbError("there is no thread-local variable %s in the symbol tables that corethreads saw" % asked)

    def symbols(name):
        """What gdb knows by a name; older ones cannot look up all of it."""
        found = []
        for lookup in ("lookup_static_symbols", "lookup_static_symbol", "lookup_global_symbol"):
            try:
                symbol = getattr(gdb, lookup)(name)
            except (AttributeError, RuntimeError):
                continue
            found += symbol if isinstance(symbol, list) else [symbol]
        return [s for s in found if s is not None and s.type is not None]

    def type_of(variable):
        """The variable's type where gdb has debug information of it, else an
        unsigned number or bytes of its size."""
        size = variable["size"]
        file = base(data["modules"][variable["module"]]["file"])
        known = [s for s in symbols(variable["name"]) if not size or s.type.strip_typedefs().sizeof == size]
        here = [s for s in known if base(s.symtab.objfile.filename) == file]
        if here or len(known) == 1:
            return (here or known)[0].type
        names = {1: ("unsigned char", "u8", "uint8"), 2: ("unsigned short", "u16", "uint16"),
                 4: ("unsigned int", "u32", "uint32"), 8: ("unsigned long long", "u64", "uint64")}
        for name in names.get(size, names[1]):
            try:
                kind = gdb.lookup_type(name)
                break
            except gdb.error:  # the language calls it something else
                pass
        else:
            raise gdb.GdbError("set language c, then try again")
        return kind if size in names or size < 2 else kind.array(size - 1)

    def value(i, asked):
        variable = find_variable(asked)
        block = data["modules"][variable["module"]]["blocks"][i]
        if not block.startswith("0x"):
            raise gdb.GdbError("%s has no %s: %s" % (called(threads[i]), asked, block))
        address = gdb.Value(int(block, 16) + variable["offset"])
        return address.cast(type_of(variable).pointer()).dereference()

    class Tls(gdb.Function):
        """$tls("NAME"): the selected thread's variable NAME, without libthread_db.
With "FILE:NAME", that of one module."""

        def invoke(self, name):
            return value(selected_thread(), name.string())

    class TlsOf(gdb.Function):
        """$tls_of("THREAD", "NAME"): the variable NAME of another thread.
THREAD is the id of a thread, or the address of a descriptor, also of a thread
that has exited; info corethreads lists them."""

        def invoke(self, thread, name):
            return value(find_thread(number_of(thread)), name.string())

    class InfoCoreThreads(gdb.Command):
        """List the threads and descriptors that corethreads found in the core,
those of exited threads included."""

        def invoke(self, argument, from_tty):
            gdb.write("%-10s %-18s %-9s %s\n" % ("LWP", "Pthread", "State", "Started at"))
            for t in threads:
                gdb.write("%-10s %-18s %-9s %s\n" % (
                    "-" if t["tid"] is None else t["tid"], t["pthread"] or "-", t["state"], t["start"] or "-"))
            for note in data["notes"]:
                gdb.write(note + "\n")

    def add_symbols():
        """Takes the symbols of files to where they were mapped, if gdb has not:
        it finds no libraries where the loader's list is not in the core."""
        if gdb.selected_inferior().pid == 0:
            return
        files = gdb.execute("info files", to_string=True)
        known = set(int(start, 16) for start in re.findall(r"(0x[0-9a-f]+) - 0x[0-9a-f]+ is \.text\b", files))
        added = []
        for f in data["files"]:
            if int(f["text"], 16) in known:
                continue
            try:
                gdb.execute(f["load"], to_string=True)
                added.append(base(f["path"]))
            except gdb.error as e:
                gdb.write("corethreads: %s: %s\n" % (f["path"], e))
        if added:
            gdb.write("corethreads: gdb did not find where these files were mapped, and has got their symbols now: %s\n" % ", ".join(added))

    Tls("tls")
    TlsOf("tls_of")
    InfoCoreThreads("info corethreads", gdb.COMMAND_STATUS)
    add_symbols()
    gdb.write("corethreads: $tls(\"NAME\"), $tls_of(\"THREAD\", \"NAME\") and info corethreads are there\n")
