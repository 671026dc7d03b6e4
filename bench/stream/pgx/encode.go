package main

import (
	"encoding/binary"
	"math"
	"strconv"
)

// Encoders by type OID. Each appends a binary value as JSON. Only the types of the benchmark's shapes are there.
var encoders = map[uint32]func(out, value []byte) []byte{
	16:   appendBool,
	23:   appendInt4,
	25:   appendText,
	701:  appendFloat8,
	1007: appendInt4Array,
	1700: appendNumeric,
	3802: func(out, value []byte) []byte { return append(out, value[1:]...) }, // jsonb: a version byte, then the text
}

func appendBool(out, value []byte) []byte {
	if value[0] != 0 {
		return append(out, "true"...)
	}
	return append(out, "false"...)
}

func appendInt4(out, value []byte) []byte {
	return strconv.AppendInt(out, int64(int32(binary.BigEndian.Uint32(value))), 10)
}

const hexDigits = "0123456789abcdef"

func appendText(out, value []byte) []byte {
	out = append(out, '"')
	from := 0
	for at, b := range value {
		if b >= 0x20 && b != '"' && b != '\\' {
			continue
		}
		out = append(out, value[from:at]...)
		from = at + 1
		switch b {
		case '"', '\\':
			out = append(out, '\\', b)
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		case '\b':
			out = append(out, '\\', 'b')
		case '\f':
			out = append(out, '\\', 'f')
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		}
	}
	out = append(out, value[from:]...)
	return append(out, '"')
}

// Like float8out: the shortest digits, with an exponent below 1e-4 and from 1e15. strconv's %g differs in that range.
func appendFloat8(out, value []byte) []byte {
	number := math.Float64frombits(binary.BigEndian.Uint64(value))
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return append(strconv.AppendFloat(append(out, '"'), number, 'g', -1, 64), '"')
	}
	if size := math.Abs(number); size != 0 && (size < 1e-4 || size >= 1e15) {
		return strconv.AppendFloat(out, number, 'e', -1, 64)
	}
	return strconv.AppendFloat(out, number, 'f', -1, 64)
}

// Header: dimensions, flags, element type. Per dimension its length and lower bound. Then length and value of each
// element.
func appendInt4Array(out, value []byte) []byte {
	if binary.BigEndian.Uint32(value) == 0 {
		return append(out, '[', ']')
	}
	out = append(out, '[')
	elements := value[20:]
	for len(elements) > 0 {
		if int32(binary.BigEndian.Uint32(elements)) < 0 {
			out = append(out, "null,"...)
			elements = elements[4:]
			continue
		}
		out = append(appendInt4(out, elements[4:8]), ',')
		elements = elements[8:]
	}
	out[len(out)-1] = ']'
	return out
}

// Header: number of digits, weight of the first, sign, scale. Then the digits in base 10000.
func appendNumeric(out, value []byte) []byte {
	count := int(binary.BigEndian.Uint16(value))
	weight := int(int16(binary.BigEndian.Uint16(value[2:])))
	if sign := binary.BigEndian.Uint16(value[4:]); sign == 0x4000 {
		out = append(out, '-')
	} else if sign != 0 {
		return append(out, `"NaN"`...)
	}
	scale := int(binary.BigEndian.Uint16(value[6:]))
	digits := value[8:]
	group := func(index int) uint16 {
		if index < 0 || index >= count {
			return 0
		}
		return binary.BigEndian.Uint16(digits[2*index:])
	}
	out = strconv.AppendUint(out, uint64(group(0))*boolean(weight >= 0), 10)
	for index := 1; index <= weight; index++ {
		out = appendGroup(out, group(index), 4)
	}
	if scale == 0 {
		return out
	}
	out = append(out, '.')
	for index := weight + 1; scale > 0; index++ {
		out = appendGroup(out, group(index), min(scale, 4))
		scale -= 4
	}
	return out
}

// The first `kept` of a group's four digits.
func appendGroup(out []byte, group uint16, kept int) []byte {
	four := [4]byte{'0' + byte(group/1000), '0' + byte(group/100%10), '0' + byte(group/10%10), '0' + byte(group%10)}
	return append(out, four[:kept]...)
}

func boolean(condition bool) uint64 {
	if condition {
		return 1
	}
	return 0
}
