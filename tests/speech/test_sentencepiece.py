"""SentencePiece models, written by the protocol buffers of `transformers`."""

from fairseq2_models import PIECES, write_tokenizer
from transformers.utils.sentencepiece_model_pb2_new import ModelProto

from ctcdro.speech.sentencepiece import read_pieces


def test_pieces_are_read_in_order_with_their_types(tmp_path):
    assert read_pieces(write_tokenizer(tmp_path / "a.model")) == PIECES


def test_long_pieces_and_the_default_type(tmp_path):
    model = ModelProto()
    model.pieces.add(piece="a" * 300)
    (tmp_path / "a.model").write_bytes(model.SerializeToString())
    assert read_pieces(tmp_path / "a.model") == [("a" * 300, 1)]
