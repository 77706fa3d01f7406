package module

import (
	"debug/elf"
	"io"
)

const (
	// versionHidden is the bit of a symbol's version index that tells that it is
	// not the default one.
	versionHidden = 0x8000
	// firstVersion is the first index that stands for a version: 0 is local and
	// 1 is global (VER_NDX_LOCAL, VER_NDX_GLOBAL).
	firstVersion = 2
	// maxVersions bounds the definitions; glibc has some sixty.
	maxVersions = 4096
	maxVersion  = 256
)

// versions gives the version of each dynamic symbol
// (https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html).
// It is nil where the module has none. Those that it needs count too: a
// program's copy of a library's variable has the version of the library's.
func (im *dynamicImage) versions(names *io.SectionReader) func(index uint32) string {
	table, ok := im.address(elf.DT_VERSYM)
	if !ok {
		return nil
	}
	order := im.layout.order
	version := make(map[uint16]string)
	im.definedVersions(names, version)
	im.neededVersions(names, version)
	return func(index uint32) string {
		var b [2]byte
		if im.read(b[:], table+2*uint64(index)) < len(b) {
			return ""
		}
		return version[order.Uint16(b[:])&^versionHidden]
	}
}

// definedVersions reads DT_VERDEF.
func (im *dynamicImage) definedVersions(names *io.SectionReader, version map[uint16]string) {
	at, ok := im.address(elf.DT_VERDEF)
	order := im.layout.order
	for n := 0; ok && n < maxVersions; n++ {
		// Verdef: version, flags, ndx, cnt of 16 bits; hash, aux, next of 32.
		var def [20]byte
		if im.read(def[:], at) < len(def) {
			return
		}
		index, aux, next := order.Uint16(def[4:]), order.Uint32(def[12:]), order.Uint32(def[16:])
		var name [4]byte // Verdaux.vda_name
		if im.read(name[:], at+uint64(aux)) == len(name) && index >= firstVersion {
			version[index] = stringAt(names, uint64(order.Uint32(name[:])), maxVersion)
		}
		at, ok = at+uint64(next), next != 0
	}
}

// neededVersions reads DT_VERNEED.
func (im *dynamicImage) neededVersions(names *io.SectionReader, version map[uint16]string) {
	file, ok := im.address(elf.DT_VERNEED)
	order := im.layout.order
	for n := 0; ok && n < maxVersions; {
		// Verneed: version, cnt of 16 bits; file, aux, next of 32.
		var need [16]byte
		if im.read(need[:], file) < len(need) {
			return
		}
		at, more := file+uint64(order.Uint32(need[8:])), true
		for ; more && n < maxVersions; n++ {
			// Vernaux: hash of 32 bits, flags, other of 16, name, next of 32.
			var aux [16]byte
			if im.read(aux[:], at) < len(aux) {
				return
			}
			if index := order.Uint16(aux[6:]) &^ versionHidden; index >= firstVersion {
				version[index] = stringAt(names, uint64(order.Uint32(aux[8:])), maxVersion)
			}
			next := order.Uint32(aux[12:])
			at, more = at+uint64(next), next != 0
		}
		next := order.Uint32(need[12:])
		file, ok = file+uint64(next), next != 0
	}
}
