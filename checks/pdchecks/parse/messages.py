"""Messages of common tools in another language than English: what a program that reads them does not understand.

One table: the English message, then its translations in the tools' own catalogues (yum, dnf, apt, libc, bash).
"""

import re

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import TranslatedMessage
from pdchecks.parse.reader import SHAPE_WINDOW, Reader
from pdchecks.unknown import Unknown

_TABLE: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "Nothing to do",
        {
            "Dutch": r"Niets te doen",
            "French": r"Rien à faire",
            "German": r"Nichts zu tun",
            "Spanish": r"Nada (?:que|para) hacer",
            "Portuguese": r"Nada (?:a|para) (?:ser feito|fazer)",
            "Italian": r"Niente da fare",
            "Polish": r"Nie ma (?:niczego|nic) do (?:zrobienia|roboty)",
            "Russian": r"Выполнять нечего|Нет действий для выполнения|Нечего делать",
            "Chinese": r"无须任何处理|无需任何(?:处理|操作)|不做任何事",
            "Japanese": r"何もしません|行うべきことはありません|行なうべき(?:事|こと)はありません",
            "Korean": r"작업이? ?없습니다|할 ?(?:것|작업)이 없습니다",
        },
    ),
    (
        "Loaded plugins",
        {
            "Dutch": r"Geladen plug-?ins",
            "French": r"Modules complémentaires chargés|Greffons chargés",
            "German": r"Geladene Plugins",
            "Spanish": r"Complementos cargados",
            "Portuguese": r"Plugins carregados",
            "Italian": r"Plugin abilitati",
            "Russian": r"Загружены модули",
            "Chinese": r"已加载插件|已載入外掛程式",
            "Japanese": r"読み込んだプラグイン",
        },
    ),
    (
        "Reading package lists...",
        {
            "Dutch": r"Pakketlijsten worden ingelezen",
            "French": r"Lecture des listes de paquets",
            "German": r"Paketlisten werden gelesen",
            "Spanish": r"Leyendo lista de paquetes",
            "Portuguese": r"(?:Lendo|A ler as) listas? de pacotes",
            "Italian": r"Lettura elenco dei pacchetti",
            "Russian": r"Чтение списков пакетов",
            "Chinese": r"正在读取软件包列表",
            "Japanese": r"パッケージリストを読み込んでいます",
        },
    ),
    (
        "No such file or directory",
        {
            "Dutch": r"Bestand of map bestaat niet",
            "French": r"Aucun fichier ou dossier de ce (?:type|nom)",
            "German": r"Datei oder Verzeichnis nicht gefunden",
            "Spanish": r"No existe el (?:archivo|fichero) o el directorio",
            "Portuguese": r"(?:Arquivo|Ficheiro) ou (?:diretório|directoria) (?:não encontrado|inexistente)",
            "Italian": r"File o directory non esistente",
            "Russian": r"Нет такого файла или каталога",
            "Chinese": r"没有那个文件或目录",
            "Japanese": r"そのようなファイルやディレクトリはありません",
            "Korean": r"그런 파일이나 (?:디렉터리|디렉토리)가 없습니다",
        },
    ),
    (
        "command not found",
        {
            "French": r"commande introuvable",
            "German": r"Kommando nicht gefunden|Befehl nicht gefunden",
            "Spanish": r"(?:orden no encontrada|no se encontró la orden)",
            "Portuguese": r"comando não encontrado",
            "Italian": r"comando non trovato",
            "Russian": r"команда не найдена",
            "Chinese": r"未找到命令",
            "Japanese": r"コマンドが見つかりません",
        },
    ),
    (
        "warning or error",
        {
            "Dutch": r"^(?:Fout|Waarschuwing): ",
            "French": r"^(?:Erreur|Avertissement) ?: ",
            "German": r"^(?:Fehler|Warnung): ",
            "Spanish": r"^Advertencia: ",
            "Italian": r"^(?:Errore|Attenzione): ",
            "Russian": r"^(?:Ошибка|Предупреждение): ",
            "Chinese": r"^(?:错误|警告)[:：]",
            "Japanese": r"^(?:エラー|警告)[:：]",
        },
    ),
)
_PHRASES = tuple(
    (meaning, language, re.compile(pattern, re.MULTILINE))
    for meaning, translations in _TABLE
    for language, pattern in translations.items()
)


def parse(block: Block) -> list[Fact] | Unknown:
    facts: list[Fact] = []
    for meaning, language, pattern in _PHRASES:
        if match := pattern.search(block.output, 0, SHAPE_WINDOW):
            line = block.output[: match.end()].rsplit("\n", 1)[-1] + block.output[match.end() :].split("\n", 1)[0]
            start = max(0, line.find(match[0]) - 60)
            facts.append(
                TranslatedMessage(quote=block.quote(line[start : start + 200]), language=language, meaning=meaning)
            )
    return facts


_ANY = re.compile("|".join(f"(?:{pattern.pattern})" for _, _, pattern in _PHRASES), re.MULTILINE)
# A word is looked for in a hundredth of the time that the patterns take, and hardly any output has one. Each alternative
# of each pattern has one of these; short ones, and those that stand in English words too, are left out.
_ENGLISH = {"directory", "Plugin", "Plugins", "plugins", "Modules", "lista", "listas", "existe", "orden", "commande"}
_WORDS = {
    word for _, _, pattern in _PHRASES for word in re.findall(r"[A-Za-z]{5,}|[^\W\d_\x00-\x7f]{2,}", pattern.pattern)
} - _ENGLISH | {"Fout", "introuvable"}


def _claims(block: Block) -> bool:
    window = block.output[:SHAPE_WINDOW]
    return any(word in window for word in _WORDS) and _ANY.search(window) is not None


READER = Reader("messages", _claims, parse, events=True)
